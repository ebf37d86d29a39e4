// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "redis/transport.h"

#include "base/postedcall.h"
#include "redis/descriptorstream.h"
#include "redis/lingeringconnection.h"
#include "redis/tls.h"

#include <QtCore/qfuturewatcher.h>
#include <QtCore/qhash.h>
#include <QtCore/qmutex.h>
#include <QtCore/qpromise.h>
#include <QtCore/qthreadpool.h>
#include <QtCore/qtimer.h>
#include <QtNetwork/qhostaddress.h>
#include <QtNetwork/qhostinfo.h>
#include <QtNetwork/qlocalsocket.h>
#include <QtNetwork/qnetworkproxy.h>
#include <QtNetwork/qtcpsocket.h>

#include <algorithm>
#include <mutex>
#include <set>
#include <utility>

#ifdef Q_OS_UNIX
#  include <fcntl.h>
#  include <poll.h>
#  include <pthread.h>
#  include <unistd.h>
#endif

#if QT_CONFIG(ssl)
#  include <QtNetwork/qsslsocket.h>
#endif

using namespace Qt::StringLiterals;

namespace QtRedis {

namespace {

// Limits memory and the bytes that one event loop turn has to parse, against a server that never stops sending.
constexpr qint64 ReadBufferSize = 256 * 1024;

class SocketTransport;

// All transports, for fork(): in the child a socket of Qt would read bytes of the parent before this library is even
// called. The list is never destroyed, because transports may outlive it.
struct Transports
{
    std::mutex mutex;
    std::set<SocketTransport *> all;

    static Transports *instance();
};

// The common part of all kinds of sockets.
class SocketTransport : public Transport
{
public:
    ~SocketTransport() override
    {
        const std::lock_guard lock(Transports::instance()->mutex);
        Transports::instance()->all.erase(this);
    }

    /// For the child after fork(), also from its handler: disconnects the socket from the server.
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
        // Errors found while writing are reported from the event loop, because the caller is still sending.
        writing = true;
        device->write(data, size);
        flush(); // to the kernel now, not in the next event loop turn
        writing = false;
    }

    qint64 read(char *data, qint64 size) final
    {
        if (stream)
            return stream->read(data, size);
        return device->isOpen() ? qMax(qint64(0), device->read(data, size)) : 0;
    }

    bool isClosed() const final
    {
#ifdef POLLRDHUP
        pollfd events{stream ? stream->descriptor() : int(descriptor()), POLLRDHUP, 0};
        return ::poll(&events, 1, 0) > 0;
#else
        return false;
#endif
    }

    // Not known of Qt's sockets, above all with TLS. After failed(), the connection must be given up first.
    bool isReentrant() const final
    {
        return stream && !reported;
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
        cutOff(); // TLS would announce to the server that the connection ends
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
    virtual qintptr descriptor() const
    {
        return -1;
    }
    virtual void abortSocket() = 0;

    void setDevice(QIODevice *socket)
    {
        device = socket;
        {
            const std::lock_guard lock(Transports::instance()->mutex);
            Transports::instance()->all.insert(this);
        }
        // QSslSocket emits readyRead() for bytes that it decrypts while it writes.
        connect(socket, &QIODevice::readyRead, this, [this] {
            if (writing)
                postedReadyRead.post();
            else
                Q_EMIT readyRead();
        });
    }

    /// From now on the connected socket is read and written directly, without Qt's.
    void takeDescriptor(qintptr descriptor)
    {
        stream = std::make_unique<DescriptorStream>(descriptor);
        connect(stream.get(), &DescriptorStream::readyRead, this, &Transport::readyRead);
        connect(stream.get(), &DescriptorStream::closed, this,
                [this] { report(Failure::Network, u"the server closed the connection"_s); });
        connect(stream.get(), &DescriptorStream::failed, this,
                [this](const QString &error) { report(Failure::Network, u"network error (%1)"_s.arg(error)); });
        device->disconnect(this);
        abortSocket();
    }

    // Only the first failure is the cause.
    void report(Failure failure, const QString &text)
    {
        if (reported)
            return;
        reported = true;
        if (writing) {
            QMetaObject::invokeMethod(
                    this, [this, failure, text] { Q_EMIT failed(failure, text); }, Qt::QueuedConnection);
        } else {
            Q_EMIT failed(failure, text);
        }
    }

private:
    QIODevice *device = nullptr;
    std::unique_ptr<DescriptorStream> stream;
    bool writing = false;
    QDistLock::PostedCall postedReadyRead{this, [this] { Q_EMIT readyRead(); }};
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

/// QHostInfo::lookupHost() keeps an address for a minute; this asks again, and makes that forget the former one.
QFuture<QHostInfo> lookUpAfresh(const QString &host)
{
    static QMutex mutex;
    static QHash<QString, QFuture<QHostInfo>> running; // one for each name: without DNS, each may take long
    static QThreadPool pool;
    const QMutexLocker locker(&mutex);
    running.removeIf([](const auto &entry) { return entry.value().isFinished(); });
    QFuture<QHostInfo> &future = running[host];
    if (!future.isRunning()) {
        QPromise<QHostInfo> promise;
        future = promise.future();
        promise.start();
        pool.start([host, promise = std::make_shared<QPromise<QHostInfo>>(std::move(promise))] {
            promise->addResult(QHostInfo::fromName(host));
            promise->finish();
        });
    }
    return future;
}

class TcpTransport : public SocketTransport
{
public:
    TcpTransport(const ServerUrl &server, int misses)
        : TcpTransport(server, misses, new QTcpSocket)
    {
        connect(socket, &QAbstractSocket::connected, this, [this] {
            if (DescriptorStream::isSupported())
                takeDescriptor(socket->socketDescriptor());
            Q_EMIT connected();
        });
    }

    void connectToServer() override
    {
        // Qt tries several addresses one after the other, with 30 s for each: longer than one attempt of ours.
        if (misses == 0 || !QHostAddress(server.host).isNull()) {
            open(server.host);
            return;
        }
        lookingUp = true;
        connect(&lookUp, &QFutureWatcherBase::finished, this, [this] {
            lookingUp = false;
            untried = lookUp.result().addresses();
            if (untried.isEmpty()) {
                reportError(QAbstractSocket::HostNotFoundError);
                return;
            }
            std::rotate(untried.begin(), untried.begin() + misses % untried.size(), untried.end());
            openNext();
        });
        lookUp.setFuture(lookUpAfresh(server.host));
    }
    void abortSocket() final
    {
        lookUp.disconnect(this);
        untried.clear();
        socket->abort();
    }

    QString pendingStep() const override
    {
        return lookingUp || socket->state() == QAbstractSocket::HostLookupState
                ? u"the host name \"%1\" did not resolve"_s.arg(server.host)
                : u"the server did not accept the connection"_s;
    }

protected:
    TcpTransport(const ServerUrl &serverUrl, int misses, QTcpSocket *tcpSocket)
        : server(serverUrl)
        , misses(misses)
        , socket(tcpSocket)
    {
        socket->setParent(this);
        socket->setProxy(QNetworkProxy::NoProxy);
        socket->setReadBufferSize(ReadBufferSize);
        setDevice(socket);
        // Both options belong to the kernel's socket, which exists only now.
        connect(socket, &QAbstractSocket::connected, this, [this] {
            untried.clear();
            socket->setSocketOption(QAbstractSocket::LowDelayOption, 1);
            socket->setSocketOption(QAbstractSocket::KeepAliveOption, 1);
        });
        connect(socket, &QAbstractSocket::errorOccurred, this, [this](QAbstractSocket::SocketError error) {
            if (untried.isEmpty())
                reportError(error);
            else
                QMetaObject::invokeMethod(
                        this, [this] { openNext(); }, Qt::QueuedConnection);
        });
        connect(socket, &QAbstractSocket::disconnected, this,
                [this] { report(Failure::Network, u"the connection was closed"_s); });
    }

    void flush() final { socket->flush(); }
    qintptr descriptor() const final { return socket->socketDescriptor(); }

    void openNext()
    {
        if (!untried.isEmpty())
            open(untried.takeFirst().toString());
    }

    /// \a host: the name of the server, or one of its addresses.
    virtual void open(const QString &host) { socket->connectToHost(host, server.port); }

    virtual void reportError(QAbstractSocket::SocketError error)
    {
        switch (error) {
        case QAbstractSocket::ConnectionRefusedError:
            report(Failure::Network, u"the connection was refused; is the server running there?"_s);
            break;
        case QAbstractSocket::RemoteHostClosedError:
            report(Failure::Network, u"the server closed the connection"_s);
            break;
        case QAbstractSocket::HostNotFoundError:
            report(Failure::NameResolution, u"the host name \"%1\" does not resolve"_s.arg(server.host));
            break;
        case QAbstractSocket::SocketTimeoutError:
            report(Failure::Timeout, u"the server did not accept the connection in time"_s);
            break;
        default:
            report(Failure::Network, u"network error (%1)"_s.arg(socket->errorString()));
        }
    }

    const ServerUrl server;
    const int misses;
    QTcpSocket *const socket;
    QFutureWatcher<QHostInfo> lookUp;
    bool lookingUp = false;
    QList<QHostAddress> untried; ///< while none has accepted the connection
};

class UnixTransport : public SocketTransport
{
public:
    explicit UnixTransport(const ServerUrl &server)
        : path(server.path)
        , socket(new QLocalSocket(this))
    {
        socket->setReadBufferSize(ReadBufferSize);
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
        connect(socket, &QLocalSocket::disconnected, this,
                [this] { report(Failure::Network, u"the server closed the connection"_s); });
    }

    void connectToServer() override { socket->connectToServer(path); }
    void abortSocket() override { socket->abort(); }
    QString pendingStep() const override { return u"the server did not accept the connection"_s; }

protected:
    void flush() override { socket->flush(); }
    qintptr descriptor() const override { return socket->socketDescriptor(); }

private:
    void reportError(QLocalSocket::LocalSocketError error)
    {
        switch (error) {
        case QLocalSocket::ConnectionRefusedError:
            report(Failure::Network, u"the connection was refused; is the server running there?"_s);
            break;
        case QLocalSocket::PeerClosedError:
            report(Failure::Network, u"the server closed the connection"_s);
            break;
        case QLocalSocket::ServerNotFoundError:
            report(Failure::Network, u"there is no such socket; is the server running there?"_s);
            break;
        case QLocalSocket::SocketAccessError:
            report(Failure::Network, u"this user may not open the socket"_s);
            break;
        default:
            report(Failure::Network, u"socket error (%1)"_s.arg(socket->errorString()));
        }
    }

    const QString path;
    QLocalSocket *const socket;
};

#if QT_CONFIG(ssl)

// After this time without a TLS handshake a probe finds out whether the port speaks TLS at all.
constexpr std::chrono::milliseconds PlaintextProbeDelay{500};

class TlsTransport : public TcpTransport
{
public:
    TlsTransport(const ServerUrl &serverUrl, int misses)
        : TcpTransport(serverUrl, misses, new QSslSocket)
    {
        QSslSocket *const tls = tlsSocket();
        connect(tls, &QAbstractSocket::connected, this,
                [this] { QTimer::singleShot(PlaintextProbeDelay, this, [this] { probePlaintext(); }); });
        connect(tls, &QSslSocket::encrypted, this, [this] {
            encrypted = true;
            // Constructed after OpenSSL, which cleans itself up at the end of the program.
            static const LingeringConnection::AtExit atExit;
            Q_EMIT connected();
        });
        connect(tls, &QSslSocket::sslErrors, this,
                [this](const QList<QSslError> &errors) { certificateErrors = errors; });
    }

    void connectToServer() override
    {
        if (!QSslSocket::supportsSsl()) {
            report(Failure::Certificate, u"Qt has no TLS library here; install one, or use redis://"_s);
            return;
        }
        QString error;
        const auto configuration = tlsConfiguration(server, &error);
        if (!configuration) {
            report(Failure::Certificate, error);
            return;
        }
        tlsSocket()->setSslConfiguration(*configuration);
        TcpTransport::connectToServer();
    }

    void open(const QString &host) override
    {
        tlsSocket()->connectToHostEncrypted(host, server.port, server.endpoint().name()); // must be in the certificate
    }

    QString pendingStep() const override
    {
        return socket->state() == QAbstractSocket::ConnectedState
                ? u"the server did not finish the TLS handshake (if this port speaks no TLS, use redis://)"_s
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
                   encrypted
                           ? u"the server closed the connection"_s
                           : u"the server closed the connection during the TLS handshake (if this port speaks no TLS, use redis://)"_s);
            break;
        default:
            TcpTransport::reportError(error);
        }
    }

private:
    QSslSocket *tlsSocket() const { return static_cast<QSslSocket *>(socket); }
    void probePlaintext();
    void reportTlsError();

    QList<QSslError> certificateErrors;
    bool encrypted = false;
    QTcpSocket *probe = nullptr;
};

/*
    A Redis server without TLS does not reply to a TLS hello: it takes it for a command that is not complete yet. A PING
    in plain text on a separate connection detects such a server; a TLS server replies with an alert, or not at all.
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
            report(Failure::Certificate, plaintextProblem());
    });
    probe->connectToHost(socket->peerAddress(), server.port);
}

void TlsTransport::reportTlsError()
{
    if (!certificateErrors.isEmpty())
        report(Failure::Certificate,
               u"the server's certificate is refused: "_s + certificateProblems(certificateErrors, server));
    else if (encrypted && !socket->errorString().contains(u"alert"_s, Qt::CaseInsensitive))
        report(Failure::Network, u"the TLS stream is damaged (%1)"_s.arg(socket->errorString()));
    else
        report(Failure::Certificate, handshakeProblem(socket->errorString()));
}

#else

class TlsTransport : public TcpTransport
{
public:
    using TcpTransport::TcpTransport;

    void connectToServer() override
    {
        report(Failure::Certificate, u"this Qt was built without TLS; rediss:// cannot be used"_s);
    }
};

#endif

} // namespace

std::unique_ptr<Transport> Transport::create(const ServerUrl &server, int misses)
{
    switch (server.scheme) {
    case ServerUrl::Tls:
        return std::make_unique<TlsTransport>(server, misses);
    case ServerUrl::Unix:
        return std::make_unique<UnixTransport>(server);
    case ServerUrl::Tcp:
        break;
    }
    return std::make_unique<TcpTransport>(server, misses);
}

} // namespace QtRedis
