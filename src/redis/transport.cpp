// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "transport.h"

#include "descriptorstream.h"
#include "lingeringconnection.h"

#include <QtCore/qtimer.h>
#include <QtNetwork/qhostaddress.h>
#include <QtNetwork/qhostinfo.h>
#include <QtNetwork/qlocalsocket.h>
#include <QtNetwork/qnetworkproxy.h>
#include <QtNetwork/qtcpsocket.h>

#include <mutex>
#include <set>
#include <utility>

#ifdef Q_OS_UNIX
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>
#endif

#if QT_CONFIG(ssl)
#include <QtCore/qfile.h>
#include <QtCore/qtimer.h>
#include <QtNetwork/qsslcertificate.h>
#include <QtNetwork/qsslconfiguration.h>
#include <QtNetwork/qsslkey.h>
#include <QtNetwork/qsslsocket.h>
#endif

namespace QtRedis {

namespace {

// Bounds what one turn of the event loop has to parse, and memory against a server that never stops
// sending.
constexpr qint64 readBufferSize = 256 * 1024;

class SocketTransport;

// Those there are, for fork(): a socket of Qt's in the child would read what is the parent's before this library is
// called at all. Never destroyed, as transports may outlive it otherwise.
struct Transports
{
    std::mutex mutex;
    std::set<SocketTransport *> all;

    static Transports *instance();
};

// What the kinds of sockets have in common.
class SocketTransport : public Transport
{
public:
    ~SocketTransport() override
    {
        const std::lock_guard lock(Transports::instance()->mutex);
        Transports::instance()->all.erase(this);
    }

    /// In a child after fork(), also from its handler: the socket leads nowhere.
    void cutOff()
    {
#ifdef Q_OS_UNIX
        if (const int socket = stream ? -1 : int(descriptor()); socket >= 0) {
            const int nowhere = ::open("/dev/null", O_RDWR | O_CLOEXEC);
            ::dup2(nowhere, socket);
            ::close(nowhere);
        }
#endif
    }

    void write(const char *data, qint64 size) final
    {
        if (stream) {
            stream->write(data, size);
            return;
        }
        // Errors found while writing are reported from the event loop: the caller is in the midst
        // of a send.
        writing = true;
        device->write(data, size);
        flush(); // to the kernel now, not in the next turn of the loop
        writing = false;
    }

    qint64 read(char *data, qint64 size) final
    {
        if (stream)
            return stream->read(data, size);
        return device->isOpen() ? qMax(qint64(0), device->read(data, size)) : 0;
    }

    void abort() final
    {
        if (stream)
            stream->abort();
        else
            abortSocket();
    }

    void disown() final
    {
        cutOff(); // TLS would tell the server that the connection ends
        abort();
    }

    bool wait(std::chrono::milliseconds atMost) final
    {
        if (stream)
            return stream->wait(atMost);
        if (!reported)
            device->waitForReadyRead(int(atMost.count()));
        return !reported;
    }

protected:
    virtual void flush() = 0;
    virtual qintptr descriptor() const { return -1; }
    virtual void abortSocket() = 0;

    void setDevice(QIODevice *socket)
    {
        device = socket;
        {
            const std::lock_guard lock(Transports::instance()->mutex);
            Transports::instance()->all.insert(this);
        }
        // QSslSocket announces what it decrypts while it writes.
        connect(socket, &QIODevice::readyRead, this, [this] {
            if (!writing) {
                Q_EMIT readyRead();
            } else if (!std::exchange(readyReadPosted, true)) {
                QMetaObject::invokeMethod(
                        this,
                        [this] {
                            readyReadPosted = false;
                            Q_EMIT readyRead();
                        },
                        Qt::QueuedConnection);
            }
        });
    }

    /// From now on the connected socket is read and written as it is, without Qt's.
    void takeDescriptor(qintptr descriptor)
    {
        stream = std::make_unique<DescriptorStream>(descriptor);
        connect(stream.get(), &DescriptorStream::readyRead, this, &Transport::readyRead);
        connect(stream.get(), &DescriptorStream::closed, this, [this] {
            report(Failure::Network, QStringLiteral("the server closed the connection"));
        });
        connect(stream.get(), &DescriptorStream::failed, this, [this](const QString &error) {
            report(Failure::Network, QStringLiteral("network error (%1)").arg(error));
        });
        device->disconnect(this);
        abortSocket();
    }

    // Only the first failure tells the cause.
    void report(Failure failure, const QString &text)
    {
        if (reported)
            return;
        reported = true;
        if (writing) {
            QMetaObject::invokeMethod(
                    this, [this, failure, text] { Q_EMIT failed(failure, text); },
                    Qt::QueuedConnection);
        } else {
            Q_EMIT failed(failure, text);
        }
    }

private:
    QIODevice *device = nullptr;
    std::unique_ptr<DescriptorStream> stream;
    bool writing = false;
    bool readyReadPosted = false;
    bool reported = false;
};

Transports *Transports::instance()
{
    static auto *const transports = [] {
        auto *const made = new Transports;
#ifdef Q_OS_UNIX
        ::pthread_atfork([] { instance()->mutex.lock(); }, [] { instance()->mutex.unlock(); },
                         [] {
                             for (SocketTransport *transport : instance()->all)
                                 transport->cutOff();
                             instance()->mutex.unlock();
                         });
#endif
        return made;
    }();
    return transports;
}

class TcpTransport : public SocketTransport
{
public:
    TcpTransport(const ServerUrl &server, int timeOuts)
        : TcpTransport(server, timeOuts, new QTcpSocket)
    {
        connect(socket, &QAbstractSocket::connected, this, [this] {
            if (DescriptorStream::isSupported())
                takeDescriptor(socket->socketDescriptor());
            Q_EMIT connected();
        });
    }

    void connectToServer() override
    {
        // Of several addresses Qt tries one after the other, but gives each 30 s: longer than an attempt takes.
        if (timeOuts == 0 || !QHostAddress(server.host).isNull()) {
            open(server.host);
            return;
        }
        lookingUp = true;
        QHostInfo::lookupHost(server.host, this, [this](const QHostInfo &info) {
            lookingUp = false;
            const QList<QHostAddress> addresses = info.addresses();
            if (addresses.isEmpty())
                reportError(QAbstractSocket::HostNotFoundError);
            else
                open(addresses.at(timeOuts % addresses.size()).toString());
        });
    }
    void abortSocket() final { socket->abort(); }

    QString pendingStep() const override
    {
        return lookingUp || socket->state() == QAbstractSocket::HostLookupState
                ? QStringLiteral("the host name \"%1\" did not resolve").arg(server.host)
                : QStringLiteral("the server did not accept the connection");
    }

protected:
    TcpTransport(const ServerUrl &serverUrl, int timeOuts, QTcpSocket *tcpSocket)
        : server(serverUrl)
        , timeOuts(timeOuts)
        , socket(tcpSocket)
    {
        socket->setParent(this);
        socket->setProxy(QNetworkProxy::NoProxy);
        socket->setReadBufferSize(readBufferSize);
        setDevice(socket);
        // Both options belong to the kernel's socket, which there is only now.
        connect(socket, &QAbstractSocket::connected, this, [this] {
            socket->setSocketOption(QAbstractSocket::LowDelayOption, 1);
            socket->setSocketOption(QAbstractSocket::KeepAliveOption, 1);
        });
        connect(socket, &QAbstractSocket::errorOccurred, this,
                [this](QAbstractSocket::SocketError error) { reportError(error); });
        connect(socket, &QAbstractSocket::disconnected, this,
                [this] { report(Failure::Network, QStringLiteral("the connection was closed")); });
    }

    void flush() final { socket->flush(); }
    qintptr descriptor() const final { return socket->socketDescriptor(); }

    /// \a host: the server's name, or one of its addresses.
    virtual void open(const QString &host) { socket->connectToHost(host, server.port); }

    virtual void reportError(QAbstractSocket::SocketError error)
    {
        switch (error) {
        case QAbstractSocket::ConnectionRefusedError:
            report(Failure::Network,
                   QStringLiteral("the connection was refused; is the server running there?"));
            break;
        case QAbstractSocket::RemoteHostClosedError:
            report(Failure::Network, QStringLiteral("the server closed the connection"));
            break;
        case QAbstractSocket::HostNotFoundError:
            report(Failure::NameResolution,
                   QStringLiteral("the host name \"%1\" does not resolve").arg(server.host));
            break;
        case QAbstractSocket::SocketTimeoutError:
            report(Failure::Timeout,
                   QStringLiteral("the server did not accept the connection in time"));
            break;
        default:
            report(Failure::Network,
                   QStringLiteral("network error (%1)").arg(socket->errorString()));
        }
    }

    const ServerUrl server;
    const int timeOuts;
    QTcpSocket *const socket;
    bool lookingUp = false;
};

class UnixTransport : public SocketTransport
{
public:
    explicit UnixTransport(const ServerUrl &server)
        : path(server.path)
        , socket(new QLocalSocket(this))
    {
        socket->setReadBufferSize(readBufferSize);
        setDevice(socket);
        // Queued: while it emits connected(), QLocalSocket has noted the descriptor twice, and abort() would close it
        // twice; between the two it may have become another thread's.
        connect(
                socket, &QLocalSocket::connected, this,
                [this] {
                    if (socket->state() != QLocalSocket::ConnectedState)
                        return;
                    if (DescriptorStream::isSupported() && socket->bytesAvailable() == 0)
                        takeDescriptor(socket->socketDescriptor());
                    Q_EMIT connected();
                },
                Qt::QueuedConnection);
        connect(socket, &QLocalSocket::errorOccurred, this,
                [this](QLocalSocket::LocalSocketError error) { reportError(error); });
        connect(socket, &QLocalSocket::disconnected, this, [this] {
            report(Failure::Network, QStringLiteral("the server closed the connection"));
        });
    }

    void connectToServer() override { socket->connectToServer(path); }
    void abortSocket() override { socket->abort(); }
    QString pendingStep() const override
    {
        return QStringLiteral("the server did not accept the connection");
    }

protected:
    void flush() override { socket->flush(); }
    qintptr descriptor() const override { return socket->socketDescriptor(); }

private:
    void reportError(QLocalSocket::LocalSocketError error)
    {
        switch (error) {
        case QLocalSocket::ConnectionRefusedError:
            report(Failure::Network,
                   QStringLiteral("the connection was refused; is the server running there?"));
            break;
        case QLocalSocket::PeerClosedError:
            report(Failure::Network, QStringLiteral("the server closed the connection"));
            break;
        case QLocalSocket::ServerNotFoundError:
            report(Failure::Network,
                   QStringLiteral("there is no such socket; is the server running there?"));
            break;
        case QLocalSocket::SocketAccessError:
            report(Failure::Network, QStringLiteral("this user may not open the socket"));
            break;
        default:
            report(Failure::Network,
                   QStringLiteral("socket error (%1)").arg(socket->errorString()));
        }
    }

    const QString path;
    QLocalSocket *const socket;
};

#if QT_CONFIG(ssl)

// How long a TLS handshake may take before it is asked whether the port speaks TLS at all.
constexpr std::chrono::milliseconds plaintextProbeDelay{500};

QString plaintextText()
{
    return QStringLiteral(
            "the server does not speak TLS on this port; use its TLS port, or redis:// for a "
            "connection without encryption");
}

class TlsTransport : public TcpTransport
{
public:
    TlsTransport(const ServerUrl &serverUrl, int timeOuts)
        : TcpTransport(serverUrl, timeOuts, new QSslSocket)
    {
        QSslSocket *const tls = tlsSocket();
        connect(tls, &QAbstractSocket::connected, this, [this] {
            QTimer::singleShot(plaintextProbeDelay, this, [this] { probePlaintext(); });
        });
        connect(tls, &QSslSocket::encrypted, this, [this] {
            encrypted = true;
            // After OpenSSL, which ends itself at the end of the program.
            static const LingeringConnection::AtExit atExit;
            Q_EMIT connected();
        });
        connect(tls, &QSslSocket::sslErrors, this,
                [this](const QList<QSslError> &errors) { certificateErrors = errors; });
    }

    void connectToServer() override
    {
        if (!QSslSocket::supportsSsl()) {
            report(Failure::Certificate,
                   QStringLiteral("Qt has no TLS library here; install one, or use redis://"));
            return;
        }
        QString error;
        if (!configure(&error)) {
            report(Failure::Certificate, error);
            return;
        }
        TcpTransport::connectToServer();
    }

    void open(const QString &host) override
    {
        tlsSocket()->connectToHostEncrypted(host, server.port, server.host); // whose certificate it is to be
    }

    QString pendingStep() const override
    {
        return socket->state() == QAbstractSocket::ConnectedState ? QStringLiteral(
                       "the server did not finish the TLS handshake (does this port speak TLS?)")
                                                                  : TcpTransport::pendingStep();
    }

protected:
    void reportError(QAbstractSocket::SocketError error) override
    {
        switch (error) {
        case QAbstractSocket::SslHandshakeFailedError:
        case QAbstractSocket::SslInternalError:
        case QAbstractSocket::SslInvalidUserDataError:
            reportTlsError();
            break;
        case QAbstractSocket::RemoteHostClosedError:
            report(Failure::Network,
                   encrypted ? QStringLiteral("the server closed the connection")
                             : QStringLiteral(
                                     "the server closed the connection during the TLS handshake "
                                     "(does this port speak TLS?)"));
            break;
        default:
            TcpTransport::reportError(error);
        }
    }

private:
    QSslSocket *tlsSocket() const { return static_cast<QSslSocket *>(socket); }
    bool configure(QString *error);
    void probePlaintext();
    void reportTlsError();
    QStringList certificateProblems() const;

    QList<QSslError> certificateErrors;
    bool encrypted = false;
    QTcpSocket *probe = nullptr;
};

QList<QSslCertificate> readCertificates(const QString &fileName, QString *error)
{
    QFile file(fileName);
    if (!file.open(QIODevice::ReadOnly)) {
        *error = QStringLiteral("the file %1 cannot be read (%2)")
                         .arg(fileName, file.errorString());
        return {};
    }
    const QList<QSslCertificate> certificates = QSslCertificate::fromDevice(&file, QSsl::Pem);
    if (certificates.isEmpty())
        *error = QStringLiteral("the file %1 has no PEM certificate").arg(fileName);
    return certificates;
}

QSslKey readKey(const QString &fileName, QString *error)
{
    QFile file(fileName);
    if (!file.open(QIODevice::ReadOnly)) {
        *error = QStringLiteral("the file %1 cannot be read (%2)")
                         .arg(fileName, file.errorString());
        return {};
    }
    const QByteArray pem = file.readAll();
    for (const QSsl::KeyAlgorithm algorithm : {QSsl::Rsa, QSsl::Ec, QSsl::Dsa}) {
        const QSslKey key(pem, algorithm);
        if (!key.isNull())
            return key;
    }
    *error = QStringLiteral("the file %1 has no unencrypted RSA, EC or DSA key in PEM")
                     .arg(fileName);
    return {};
}

// The files are read at each connect, so that renewed ones are used.
bool TlsTransport::configure(QString *error)
{
    QSslConfiguration configuration = tlsSocket()->sslConfiguration();
    configuration.setProtocol(QSsl::TlsV1_2OrLater);
    configuration.setPeerVerifyMode(QSslSocket::VerifyPeer);
    if (!server.caFile.isEmpty()) {
        const QList<QSslCertificate> authorities = readCertificates(server.caFile, error);
        if (authorities.isEmpty())
            return false;
        configuration.setCaCertificates(authorities);
    }
    if (!server.certificateFile.isEmpty()) {
        const QList<QSslCertificate> chain = readCertificates(server.certificateFile, error);
        if (chain.isEmpty())
            return false;
        const QSslKey key = readKey(server.keyFile, error);
        if (key.isNull())
            return false;
        configuration.setLocalCertificateChain(chain);
        configuration.setPrivateKey(key);
    }
    tlsSocket()->setSslConfiguration(configuration);
    return true;
}

/*
    A Redis without TLS keeps silent on a TLS hello: to it that is a command whose end has not come.
    A PING in clear on a connection of its own finds that out. A TLS server answers it with an alert
    or not at all.
*/
void TlsTransport::probePlaintext()
{
    if (encrypted || probe || socket->state() != QAbstractSocket::ConnectedState)
        return;
    probe = new QTcpSocket(this);
    probe->setProxy(QNetworkProxy::NoProxy);
    connect(probe, &QAbstractSocket::connected, this, [this] { probe->write("PING\r\n"); });
    connect(probe, &QIODevice::readyRead, this, [this] {
        const QByteArray answer = probe->read(1);
        probe->abort();
        if (!encrypted && (answer == "+" || answer == "-"))
            report(Failure::Certificate, plaintextText());
    });
    probe->connectToHost(socket->peerAddress(), server.port);
}

QStringList TlsTransport::certificateProblems() const
{
    QStringList problems;
    for (const QSslError &error : certificateErrors) {
        QString problem;
        switch (error.error()) {
        case QSslError::HostNameMismatch:
            problem = QStringLiteral("it was issued for another host name than \"%1\"")
                              .arg(server.host);
            break;
        case QSslError::CertificateExpired:
            problem = QStringLiteral("it expired on %1")
                              .arg(error.certificate().expiryDate().toString(Qt::ISODate));
            break;
        case QSslError::CertificateNotYetValid:
            problem = QStringLiteral("it is valid only from %1")
                              .arg(error.certificate().effectiveDate().toString(Qt::ISODate));
            break;
        case QSslError::SelfSignedCertificate:
            problem = QStringLiteral(
                    "it is self-signed and not trusted (a CA of your own is given with ?ca=FILE)");
            break;
        case QSslError::SelfSignedCertificateInChain: // the authority's own
        case QSslError::UnableToGetIssuerCertificate:
        case QSslError::UnableToGetLocalIssuerCertificate:
        case QSslError::UnableToVerifyFirstCertificate:
        case QSslError::CertificateUntrusted:
        case QSslError::InvalidCaCertificate:
            problem = QStringLiteral("it was issued by an authority that is not trusted "
                                     "(a CA of your own is given with ?ca=FILE)");
            break;
        default:
            problem = error.errorString();
        }
        if (!problems.contains(problem))
            problems.append(problem);
    }
    return problems;
}

void TlsTransport::reportTlsError()
{
    const QString reason = socket->errorString();
    const auto says = [&reason](const char *words) {
        return reason.contains(QLatin1String(words), Qt::CaseInsensitive);
    };
    if (!certificateErrors.isEmpty()) {
        report(Failure::Certificate,
               QStringLiteral("the server's certificate is refused: %1")
                       .arg(certificateProblems().join(QLatin1String("; "))));
    } else if (says("alert")) {
        report(Failure::Certificate,
               QStringLiteral(
                       "the server refuses the TLS connection (%1); does it ask for a client "
                       "certificate (?cert=FILE&key=FILE)?")
                       .arg(reason));
    } else if (encrypted) {
        report(Failure::Network, QStringLiteral("the TLS stream is damaged (%1)").arg(reason));
    } else if (says("wrong version") || says("unknown protocol") || says("packet length")) {
        report(Failure::Certificate, plaintextText());
    } else {
        report(Failure::Certificate, QStringLiteral("the TLS handshake failed (%1)").arg(reason));
    }
}

#else

class TlsTransport : public TcpTransport
{
public:
    using TcpTransport::TcpTransport;

    void connectToServer() override
    {
        report(Failure::Certificate,
               QStringLiteral("this Qt was built without TLS; rediss:// cannot be used"));
    }
};

#endif

} // namespace

std::unique_ptr<Transport> Transport::create(const ServerUrl &server, int timeOuts)
{
    switch (server.scheme) {
    case ServerUrl::Tls:
        return std::make_unique<TlsTransport>(server, timeOuts);
    case ServerUrl::Unix:
        return std::make_unique<UnixTransport>(server);
    case ServerUrl::Tcp:
        break;
    }
    return std::make_unique<TcpTransport>(server, timeOuts);
}

} // namespace QtRedis
