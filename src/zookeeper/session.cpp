// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "zookeeper/session.h"

#include "zookeeper/logging.h"

#include <QtCore/qlibrary.h>
#include <QtCore/qpointer.h>
#include <QtCore/qsocketnotifier.h>
#include <QtNetwork/qhostinfo.h>

#include <sys/socket.h>
#include <zookeeper/zookeeper.h>

#include <array>
#include <utility>

using namespace Qt::StringLiterals;
using namespace std::chrono_literals;
using std::chrono::milliseconds;

namespace QtZooKeeper {

namespace {

/// No server's name can be looked up: the pause before the next attempt.
constexpr milliseconds LookUpPause = 1s;

/// The functions and data of the C client that this file uses. The client is loaded when it is first needed, so that
/// programs without ZooKeeper can run without it. A member for data is a pointer to them.
struct Client
{
    QLibrary library{u"zookeeper_st"_s, 2}; // remains loaded
    QString problem;                        ///< why it cannot be used; empty if it can

#define QTZOOKEEPER_SYMBOL(name) decltype(&::name) const name = reinterpret_cast<decltype(&::name)>(find(#name))
    QTZOOKEEPER_SYMBOL(zookeeper_init2);
    QTZOOKEEPER_SYMBOL(zookeeper_close);
    QTZOOKEEPER_SYMBOL(zookeeper_interest);
    QTZOOKEEPER_SYMBOL(zookeeper_process);
    QTZOOKEEPER_SYMBOL(zoo_state);
    QTZOOKEEPER_SYMBOL(zoo_client_id);
    QTZOOKEEPER_SYMBOL(zoo_recv_timeout);
    QTZOOKEEPER_SYMBOL(is_unrecoverable);
    QTZOOKEEPER_SYMBOL(zerror);
    QTZOOKEEPER_SYMBOL(zoo_set_debug_level);
    QTZOOKEEPER_SYMBOL(zoo_set_servers);
    QTZOOKEEPER_SYMBOL(zoo_set_servers_resolution_delay);
    QTZOOKEEPER_SYMBOL(zoo_add_auth);
    QTZOOKEEPER_SYMBOL(zoo_acreate2);
    QTZOOKEEPER_SYMBOL(zoo_adelete);
    QTZOOKEEPER_SYMBOL(zoo_aget);
    QTZOOKEEPER_SYMBOL(zoo_awget);
    QTZOOKEEPER_SYMBOL(zoo_aget_children2);
    QTZOOKEEPER_SYMBOL(zoo_amulti);
    QTZOOKEEPER_SYMBOL(zoo_check_op_init);
    QTZOOKEEPER_SYMBOL(zoo_set_op_init);
    QTZOOKEEPER_SYMBOL(zoo_async);
    QTZOOKEEPER_SYMBOL(ZOO_OPEN_ACL_UNSAFE);
    QTZOOKEEPER_SYMBOL(ZOO_CREATOR_ALL_ACL);
    QTZOOKEEPER_SYMBOL(ZOO_CONTAINER);
    QTZOOKEEPER_SYMBOL(ZOO_EPHEMERAL_SEQUENTIAL);
    QTZOOKEEPER_SYMBOL(ZOO_ASSOCIATING_STATE);
    QTZOOKEEPER_SYMBOL(ZOO_CONNECTED_STATE);
    QTZOOKEEPER_SYMBOL(ZOO_EXPIRED_SESSION_STATE);
    QTZOOKEEPER_SYMBOL(ZOO_AUTH_FAILED_STATE);
    QTZOOKEEPER_SYMBOL(ZOO_SESSION_EVENT);
    QTZOOKEEPER_SYMBOL(ZOO_DELETED_EVENT);
    QTZOOKEEPER_SYMBOL(ZOOKEEPER_READ);
    QTZOOKEEPER_SYMBOL(ZOOKEEPER_WRITE);
#undef QTZOOKEEPER_SYMBOL

    Client()
    {
        // Its log lines are made in one buffer for all threads.
        if (problem.isEmpty())
            zoo_set_debug_level(lcZooKeeper().isDebugEnabled() ? ZOO_LOG_LEVEL_INFO : ZooLogLevel(0));
    }

    QFunctionPointer find(const char *name)
    {
        const QFunctionPointer symbol = library.resolve(name);
        if (!symbol && problem.isEmpty()) {
            problem = library.isLoaded()
                    ? u"%1 has no %2; install version 3.5.5 or later"_s.arg(library.fileName(), QLatin1String(name))
                    : u"libzookeeper_st.so.2, ZooKeeper's C client for event loops, cannot be loaded (%1); install it, on Debian libzookeeper-st2"_s
                              .arg(library.errorString());
        }
        return symbol;
    }
};

const Client &client()
{
    static const Client loaded;
    return loaded;
}

void log(const char *message)
{
    qCDebug(lcZooKeeper, "%s", message);
}

} // namespace

bool Result::isMissing() const
{
    return code == ZNONODE;
}

bool Result::existsAlready() const
{
    return code == ZNODEEXISTS;
}

bool Result::isOutdated() const
{
    return code == ZBADVERSION;
}

bool Result::isRefused() const
{
    return code == ZNOAUTH || code == ZINVALIDACL || code == ZAUTHFAILED;
}

bool Result::isUnknown() const
{
    return code == ZCONNECTIONLOSS || code == ZOPERATIONTIMEOUT || code == ZCLOSING;
}

QString Result::errorString() const
{
    return isOk() ? QString() : QString::fromLatin1(client().zerror(code));
}

/// An operation that the client has taken. It belongs to the client, which always calls back.
struct Session::Call
{
    std::shared_ptr<Session *> session;
    Completion completion;
    Watcher *watcher = nullptr; ///< is there only if the operation succeeds
};

/// As Call; but a watch need not fire.
struct Session::Watcher
{
    std::shared_ptr<Session *> session;
    Watch watch;
};

/// The functions that the C client calls. They only store results, because no function of the application may be
/// called from inside the client.
struct Callbacks
{
    static void created(int code, const char *path, const Stat *stat, const void *call)
    {
        Result result;
        result.path = path;
        finish(call, code, &result, stat);
    }

    static void done(int code, const void *call)
    {
        Result result;
        finish(call, code, &result);
    }

    static void synced(int code, const char *, const void *call)
    {
        Result result;
        finish(call, code, &result);
    }

    static void read(int code, const char *data, int size, const Stat *stat, const void *call)
    {
        Result result;
        if (data && size > 0)
            result.data = QByteArray(data, size);
        finish(call, code, &result, stat);
    }

    static void listed(int code, const String_vector *names, const Stat *stat, const void *call)
    {
        Result result;
        for (int i = 0; names && i < names->count; ++i)
            result.children.append(names->data[i]);
        finish(call, code, &result, stat);
    }

    static void sessionEvent(zhandle_t *, int, int, const char *, void *) {} // the state is asked for

    static void nodeEvent(zhandle_t *, int type, int, const char *, void *context)
    {
        if (type == *client().ZOO_SESSION_EVENT) // every watcher gets these, and remains
            return;
        auto *const watcher = static_cast<Session::Watcher *>(context);
        Session *const session = *watcher->session;
        if (!session)
            return;
        session->m_watchers.remove(watcher);
        session->deliverLater([watch = std::move(watcher->watch), isDeleted = type == *client().ZOO_DELETED_EVENT] {
            watch(isDeleted);
        });
        delete watcher;
    }

private:
    static void finish(const void *context, int code, Result *result, const Stat *stat = nullptr)
    {
        const std::unique_ptr<Session::Call> call(static_cast<Session::Call *>(const_cast<void *>(context)));
        Session *const session = *call->session;
        if (!session)
            return;
        result->code = code;
        if (call->watcher && code != ZOK) {
            session->m_watchers.remove(call->watcher);
            delete call->watcher;
        }
        if (stat)
            result->stat = {stat->czxid, stat->ephemeralOwner, milliseconds(stat->ctime), stat->version,
                            stat->dataLength};
        session->deliverLater([completion = std::move(call->completion), result = *result] {
            if (completion)
                completion(result);
        });
    }
};

void Session::DeleteLater::operator()(QSocketNotifier *notifier) const
{
    notifier->setEnabled(false);
    notifier->deleteLater();
}

Session::Session(const Options &options, QObject *parent)
    : QObject(parent)
    , m_options(options)
{
    m_timer.setSingleShot(true);
    m_timer.setTimerType(Qt::PreciseTimer);
    m_timer.callOnTimeout(this, [this] { advanceNow(0); });
    m_lookUpAgain.setSingleShot(true);
    m_lookUpAgain.callOnTimeout(this, &Session::lookUpNext);
}

Session::~Session()
{
    close();
}

QString Session::problem()
{
    return client().problem;
}

qint64 Session::id() const
{
    return m_handle ? client().zoo_client_id(m_handle)->client_id : 0;
}

milliseconds Session::timeout() const
{
    return milliseconds(id() != 0 ? client().zoo_recv_timeout(m_handle) : 0);
}

void Session::open(const QByteArray &user, const QByteArray &password)
{
    if (m_state == Connecting || m_state == Connected)
        return;
    endClient();
    m_errorString.clear();
    m_login = user.isEmpty() ? QByteArray() : user + ':' + password;
    m_self = std::make_shared<Session *>(this);
    m_state = Connecting;
    lookUpNext();
}

void Session::close()
{
    m_toDeliver.clear();
    m_unsent.clear();
    endClient();
    m_errorString.clear();
    m_state = Closed;
}

void Session::endClient()
{
    m_timer.stop();
    m_lookUpAgain.stop();
    if (m_lookup >= 0)
        QHostInfo::abortHostLookup(m_lookup);
    m_lookup = -1;
    m_toLookUp = 0;
    m_addresses.clear();
    m_readNotifier.reset();
    m_writeNotifier.reset();
    if (m_self)
        *m_self = nullptr;
    m_self.reset();
    if (zhandle_t *const handle = std::exchange(m_handle, nullptr)) {
        // The client would wait for the kernel, for seconds. A new connection takes whatever it sends now.
        int descriptor = -1;
        int wanted = 0;
        timeval time = {};
        const bool isReady = client().zoo_state(handle) == *client().ZOO_CONNECTED_STATE
                && client().zookeeper_interest(handle, &descriptor, &wanted, &time) == ZOK
                && !(wanted & *client().ZOOKEEPER_WRITE);
        if (!isReady && descriptor >= 0)
            ::shutdown(descriptor, SHUT_RDWR);
        client().zookeeper_close(handle);
    }
    qDeleteAll(std::exchange(m_watchers, {}));
}

/// One name after the other. The client would look them up itself, and block.
void Session::lookUpNext()
{
    if (m_toLookUp < m_options.servers.size()) {
        m_lookup = QHostInfo::lookupHost(m_options.servers.at(m_toLookUp).host, this, &Session::lookedUp);
        return;
    }
    m_toLookUp = 0;
    if (!m_addresses.isEmpty())
        return connectToServers();
    m_lookUpAgain.start(LookUpPause);
    if (!m_handle) // else the client still tries the addresses that it has
        Q_EMIT failed();
}

void Session::lookedUp(const QHostInfo &info)
{
    m_lookup = -1;
    const Server server = m_options.servers.at(m_toLookUp++);
    const QList<QHostAddress> addresses = info.addresses();
    for (const QHostAddress &address : addresses) {
        const bool isIPv6 = address.protocol() == QAbstractSocket::IPv6Protocol;
        const QString host = isIPv6 ? u'[' + address.toString() + u']' : address.toString();
        m_addresses.append((host + u':' + QString::number(server.port)).toLatin1());
    }
    if (addresses.isEmpty())
        m_errorString = u"the host name %1 cannot be resolved (%2)"_s.arg(server.host, info.errorString());
    lookUpNext();
}

void Session::connectToServers()
{
    const QByteArray addresses = m_addresses.join(',');
    m_untried = m_addressCount = m_addresses.size();
    m_addresses.clear();
    if (m_handle) {
        client().zoo_set_servers(m_handle, addresses.constData());
        return;
    }
    m_handle = client().zookeeper_init2(addresses.constData(), &Callbacks::sessionEvent, int(m_options.timeout.count()),
                                        nullptr, this, 0, &log);
    if (!m_handle) {
        m_errorString = u"the client could not be set up (%1)"_s.arg(qt_error_string(errno));
        m_lookUpAgain.start(LookUpPause);
        Q_EMIT failed();
        return;
    }
    client().zoo_set_servers_resolution_delay(m_handle, -1); // it would block
    if (!m_login.isEmpty()) {
        hand(std::unique_ptr<Call>(new Call{m_self, {}, nullptr}), [this](Call *call) {
            return client().zoo_add_auth(m_handle, "digest", m_login.constData(), int(m_login.size()), &Callbacks::done,
                                         call);
        });
    }
    for (auto &[call, sender] : std::exchange(m_unsent, {}))
        hand(std::move(call), sender);
    advance(0);
}

void Session::send(Completion completion, Sender sender)
{
    std::unique_ptr<Call> call(new Call{m_self, std::move(completion), nullptr});
    if (!m_handle && m_state == Connecting) { // until the names of the servers have been looked up
        m_unsent.emplace_back(std::move(call), std::move(sender));
        return;
    }
    hand(std::move(call), sender);
    if (m_handle)
        advance(0);
}

void Session::hand(std::unique_ptr<Call> call, const Sender &sender)
{
    const int code = m_handle ? sender(call.get()) : int(ZINVALIDSTATE);
    if (code == ZOK) {
        call.release(); // NOLINT: it belongs to the client
        return;
    }
    Result result;
    result.code = code;
    deliverLater([completion = std::move(call->completion), result] {
        if (completion)
            completion(result);
    });
}

void Session::create(const QByteArray &path, const QByteArray &data, Kind kind, Completion completion)
{
    // Everybody may use the node, or whoever has the same login.
    const ACL_vector *const rights = m_login.isEmpty() ? client().ZOO_OPEN_ACL_UNSAFE : client().ZOO_CREATOR_ALL_ACL;
    const int flags = kind == Container ? *client().ZOO_CONTAINER : *client().ZOO_EPHEMERAL_SEQUENTIAL;
    send(std::move(completion), [=](Call *call) {
        return client().zoo_acreate2(m_handle, path.constData(), data.constData(), int(data.size()), rights, flags,
                                     &Callbacks::created, call);
    });
}

void Session::remove(const QByteArray &path, Completion completion)
{
    send(std::move(completion),
         [=](Call *call) { return client().zoo_adelete(m_handle, path.constData(), -1, &Callbacks::done, call); });
}

void Session::read(const QByteArray &path, Watch watch, Completion completion)
{
    send(std::move(completion), [this, path, watch = std::move(watch)](Call *call) {
        if (!watch)
            return client().zoo_aget(m_handle, path.constData(), 0, &Callbacks::read, call);
        auto watcher = std::make_unique<Watcher>(Watcher{m_self, watch});
        const int code = client().zoo_awget(m_handle, path.constData(), &Callbacks::nodeEvent, watcher.get(),
                                            &Callbacks::read, call);
        if (code == ZOK) {
            call->watcher = watcher.get();
            m_watchers.insert(watcher.release());
        }
        return code;
    });
}

void Session::write(const QByteArray &path, const QByteArray &data, int version, const QByteArray &beside,
                    Completion completion)
{
    using Results = std::array<zoo_op_result_t, 2>;
    const auto results = std::make_shared<Results>(); // the client writes them until it calls back
    const auto written = [results, completion = std::move(completion)](const Result &result) {
        if (completion)
            completion(result);
    };
    send(written, [=](Call *call) {
        std::array<zoo_op_t, Results().size()> operations = {};
        client().zoo_check_op_init(&operations[0], beside.constData(), -1);
        client().zoo_set_op_init(&operations[1], path.constData(), data.constData(), int(data.size()), version,
                                 nullptr);
        return client().zoo_amulti(m_handle, int(operations.size()), operations.data(), results->data(),
                                   &Callbacks::done, call);
    });
}

void Session::children(const QByteArray &path, Completion completion)
{
    send(std::move(completion), [=](Call *call) {
        return client().zoo_aget_children2(m_handle, path.constData(), 0, &Callbacks::listed, call);
    });
}

void Session::sync(const QByteArray &path, Completion completion)
{
    send(std::move(completion),
         [=](Call *call) { return client().zoo_async(m_handle, path.constData(), &Callbacks::synced, call); });
}

void Session::advance(int events)
{
    if (m_isInClient || !m_handle)
        return;
    m_isInClient = true;
    const auto now = m_options.now ? m_options.now() : std::chrono::nanoseconds(0);
    int state = client().zoo_state(m_handle);
    const auto noteState = [&] {
        const int former = std::exchange(state, client().zoo_state(m_handle));
        if (state == *client().ZOO_ASSOCIATING_STATE && former != state)
            m_lastAskedAt = now;
    };
    QString failure;
    const auto noteFailure = [&](int code) {
        const bool isKnown = errno != 0 && errno != EINPROGRESS && errno != EAGAIN;
        const QString reason = isKnown ? qt_error_string(errno) : QString::fromLatin1(client().zerror(code));
        if (m_state == Connecting && --m_untried <= 0) { // it tries each once, in any order, before it begins again
            m_untried = m_addressCount;
            failure = reason;
        }
    };
    errno = 0;
    int code = events != 0 ? client().zookeeper_process(m_handle, events) : int(ZOK);
    if (code == ZCONNECTIONLOSS)
        noteFailure(code);
    noteState();
    int descriptor = -1;
    int wanted = 0;
    timeval time = {};
    // Connects, sends pings, and ends a connection that is silent. After an error it can be asked again.
    for (int i = 0; i < 3 && !client().is_unrecoverable(m_handle); ++i) {
        descriptor = -1;
        errno = 0;
        code = client().zookeeper_interest(m_handle, &descriptor, &wanted, &time);
        if (code != ZOK)
            noteFailure(code);
        noteState();
        if (code == ZOK)
            break;
        client().zookeeper_process(m_handle, 0); // calls back for what was lost
    }
    if (!failure.isEmpty()) {
        deliverLater([this, failure, self = m_self] {
            if (m_state != Connecting || self != m_self)
                return;
            m_errorString = u"no server could be reached (%1)"_s.arg(failure);
            if (m_lookup < 0 && !m_lookUpAgain.isActive())
                m_lookUpAgain.start(LookUpPause); // a name may have another address by now
            Q_EMIT failed();
        });
    }
    m_isInClient = false;

    if (!m_readNotifier || m_readNotifier->socket() != descriptor) {
        m_readNotifier.reset();
        m_writeNotifier.reset();
        if (descriptor >= 0) {
            m_readNotifier = Notifier(new QSocketNotifier(descriptor, QSocketNotifier::Read));
            m_writeNotifier = Notifier(new QSocketNotifier(descriptor, QSocketNotifier::Write));
            connect(m_readNotifier.get(), &QSocketNotifier::activated, this,
                    [this] { advanceNow(*client().ZOOKEEPER_READ); });
            connect(m_writeNotifier.get(), &QSocketNotifier::activated, this,
                    [this] { advanceNow(*client().ZOOKEEPER_WRITE); });
        }
    }
    if (m_readNotifier) {
        m_readNotifier->setEnabled(wanted & *client().ZOOKEEPER_READ);
        m_writeNotifier->setEnabled(wanted & *client().ZOOKEEPER_WRITE);
    }
    const auto wait = std::chrono::seconds(time.tv_sec) + std::chrono::microseconds(time.tv_usec);
    if (client().is_unrecoverable(m_handle))
        m_timer.stop(); // the session has ended
    else
        m_timer.start(std::chrono::ceil<milliseconds>(wait));
    deliverLater([this, state, askedAt = m_lastAskedAt, self = m_self] {
        if (self == m_self) // of the present session
            clientStateIs(state, askedAt);
    });
}

void Session::advanceNow(int events)
{
    advance(events);
    deliver();
}

void Session::clientStateIs(int state, std::chrono::nanoseconds askedAt)
{
    if (state == *client().ZOO_CONNECTED_STATE) {
        m_lookUpAgain.stop();
        m_untried = m_addressCount;
        m_askedAt = askedAt;
        setState(Connected, {});
    } else if (state == *client().ZOO_EXPIRED_SESSION_STATE) {
        setState(Expired,
                 u"the ensemble has ended the session, because it did not hear of it for %1 ms"_s.arg(
                         client().zoo_recv_timeout(m_handle)));
    } else if (state == *client().ZOO_AUTH_FAILED_STATE) {
        setState(LoginFailed, u"the login was refused"_s);
    } else if (m_state == Connected) {
        m_lookUpAgain.start(0); // a name may have another address by now
        setState(Connecting, u"the connection was lost"_s);
    }
}

void Session::setState(State state, const QString &errorString)
{
    if (state == m_state)
        return;
    m_state = state;
    m_errorString = errorString;
    Q_EMIT stateChanged();
}

void Session::deliverLater(std::function<void()> function)
{
    m_toDeliver.push_back(std::move(function));
    if (m_toDeliver.size() == 1)
        m_postedDelivery.post();
}

void Session::deliver()
{
    const QPointer<Session> self(this);
    while (self && !m_toDeliver.empty()) {
        const std::function<void()> function = std::move(m_toDeliver.front());
        m_toDeliver.pop_front();
        if (!m_toDeliver.empty())
            m_postedDelivery.post(); // for an event loop inside the function
        if (function)
            function();
    }
}

} // namespace QtZooKeeper
