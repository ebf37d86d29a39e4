// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "session.h"

#include "output.h"

#include <algorithm>
#include <utility>

using namespace Qt::StringLiterals;

using namespace std::chrono_literals;
using QDistLock::DistributedLock;
using QDistLock::LockOptions;
using QDistLock::LockRegistry;

namespace Cli {

namespace {

constexpr std::chrono::milliseconds DefaultConnectTimeout = 5s;

} // namespace

Session::Session(const Invocation &invocation)
    : m_invocation(invocation)
    , m_server(invocation.has(Option::Server) ? QUrl(invocation.text(Option::Server)) : LockRegistry::defaultServer())
    , m_registry(std::make_unique<LockRegistry>(m_server))
{
    m_registry->setDefaults(lockOptions());
    if (invocation.has(Option::Prefix))
        m_registry->setKeyPrefix(invocation.text(Option::Prefix));
    if (m_registry->error() != DistributedLock::NoError) {
        fail(ConfigurationError,
             u"%1 (from %2)"_s.arg(m_registry->errorString(),
                                   invocation.has(Option::Server) ? u"--server"_s : u"$QDISTLOCK_URL"_s));
    } else if (m_server.scheme() == u"memory" && invocation.command() != Command::Doctor) {
        fail(ConfigurationError,
             u"%1: these locks exist in this process only, and exclude nobody; give the URL of a Redis server"_s.arg(
                     serverText()));
    } else if (isZooKeeper() && (invocation.command() == Command::Acquire || invocation.command() == Command::Renew)) {
        fail(ConfigurationError,
             u"%1: there a lock ends with the process that acquired it; use run or hold"_s.arg(serverText()));
    }
    m_connectTimer.setSingleShot(true);
    connect(&m_connectTimer, &QTimer::timeout, this, &Session::connectTimeoutEnded);
    connect(m_registry.get(), &LockRegistry::stateChanged, this, [this] {
        m_reached |= m_registry->state() == LockRegistry::Ready;
        if (m_reached)
            m_connectTimer.stop();
    });
    connect(m_registry.get(), &LockRegistry::errorOccurred, this, [this](DistributedLock::Error error) {
        // The library tries again, because other errors of a login pass.
        const QString text = m_registry->errorString();
        if (!isUsable() || m_reached || exitCodeOf(error, text) != ConfigurationError)
            return;
        m_connectTimer.stop();
        fail(error, text);
        Q_EMIT failed();
    });
}

Session::~Session() = default;

LockOptions Session::lockOptions() const
{
    LockOptions options;
    options.mode = m_invocation.has(Option::Shared) ? LockOptions::Shared : LockOptions::Exclusive;
    if (m_invocation.has(Option::Limit)) {
        const qint64 number = m_invocation.number(Option::Limit).value_or(0);
        options.permits = number > 0 ? int(number) : LockOptions::ServerPermits;
        const qint64 take = m_invocation.number(Option::Take).value_or(options.take);
        options.take = int(std::min<qint64>(take, LockOptions::MaximumPermits + 1)); // too many, see usageError()
    }
    options.lease = m_invocation.duration(Option::Lease).value_or(options.lease);
    options.minHold = m_invocation.duration(Option::MinHold).value_or(options.minHold);
    options.wait = m_invocation.duration(Option::Timeout).value_or(LockOptions::Forever);
    options.fair = !m_invocation.has(Option::NoFair);
    options.autoRenew = !m_invocation.has(Option::NoRenew);
    return options;
}

QString Session::usageError() const
{
    if (m_invocation.has(Option::NonBlock) && m_invocation.has(Option::Timeout))
        return u"-n (--nonblock) and -w (--timeout) exclude each other"_s;
    if (m_invocation.has(Option::Shared) && m_invocation.has(Option::Limit))
        return u"-s (--shared) and --limit exclude each other: a name has either readers or a limit"_s;
    if (m_invocation.has(Option::Take) && !m_invocation.has(Option::Limit))
        return u"--take needs --limit"_s;
    const LockOptions options = lockOptions();
    const int limit = options.permits > 0 ? options.permits : LockOptions::MaximumPermits;
    if (options.take < 1 || options.take > limit)
        return u"--take is %1; it must be from 1 to %2%3"_s.arg(m_invocation.text(Option::Take))
                .arg(limit)
                .arg(options.permits > 0 ? u", see --limit"_s : QString());
    if (options.lease < LockOptions::MinimumLease || options.lease > LockOptions::MaximumLease) {
        return u"--lease is %1; it must be from %2 to %3"_s.arg(durationText(options.lease),
                                                                durationText(LockOptions::MinimumLease),
                                                                durationText(LockOptions::MaximumLease));
    }
    if (options.minHold > options.lease) {
        return u"--min-hold is %1; it must not be longer than the lease, which is %2; see --lease"_s.arg(
                durationText(options.minHold), durationText(options.lease));
    }
    return options.validationError();
}

int Session::exitCodeOf(DistributedLock::Error error, const QString &text) const
{
    // The part of the URL of which only the server knows whether it can be used.
    if (error == DistributedLock::ServerError && text.contains(u": database "_s)
        && text.contains(u" cannot be selected "_s))
        return ConfigurationError;
    switch (error) {
    case DistributedLock::NoError:
        return Success;
    case DistributedLock::BusyError:
    case DistributedLock::TimeoutError:
        return int(m_invocation.number(Option::ConflictExitCode).value_or(Busy));
    case DistributedLock::ConnectionError:
    case DistributedLock::ProtocolError:
    case DistributedLock::ServerError:
    case DistributedLock::QuorumError:
    case DistributedLock::ReplicationError:
        return ServerUnavailable;
    case DistributedLock::AuthenticationError:
    case DistributedLock::PermissionError:
        return AccessDenied;
    case DistributedLock::ForeignTypeError:
    case DistributedLock::NameError:
    case DistributedLock::OptionsError:
        return UsageError;
    case DistributedLock::CancelledError:
    case DistributedLock::UpgradeError:
        break;
    }
    return InternalError;
}

int Session::fail(DistributedLock::Error error, const QString &text)
{
    QString inOurWords = text;
    static const std::pair<QString, QString> words[] = {
            {u"LockOptions::Shared"_s, u"--shared"_s},
            {u"permits is LockOptions::ServerPermits"_s, u"--limit is server"_s},
            {u"LockOptions::ServerPermits"_s, u"--limit server"_s},
            {u"LockOptions::permits"_s, u"--limit"_s},
            {u"LockRegistry::setPermits()"_s, u"`qdistlock permits`"_s},
            {u": permits is "_s, u": --limit is "_s},
            {u": take is "_s, u": --take is "_s},
    };
    for (const auto &[theirs, ours] : words)
        inOurWords.replace(theirs, ours);
    return fail(exitCodeOf(error, text), inOurWords);
}

int Session::fail(int exitCode, const QString &text)
{
    if (exitCode == Success) // by --conflict-exit-code
        printNote(text);
    else
        printError(text);
    m_exitCode = exitCode;
    return exitCode;
}

bool Session::isReadOnly(const QString &text) const
{
    static const QStringList oneServer{u"redis"_s, u"rediss"_s, u"unix"_s};
    return oneServer.contains(m_registry->server().scheme()) && text.contains(u" answered acquire with \"READONLY "_s);
}

std::chrono::milliseconds Session::connectTimeout() const
{
    return m_invocation.duration(Option::ConnectTimeout).value_or(DefaultConnectTimeout);
}

void Session::startConnectTimeout()
{
    m_reached |= m_registry->state() == LockRegistry::Ready;
    if (!m_reached && !m_connectTimer.isActive())
        m_connectTimer.start(connectTimeout());
}

void Session::connectTimeoutEnded()
{
    const QString text = m_registry->errorString();
    fail(ServerUnavailable,
         text.isEmpty()
                 ? u"%1: the server did not answer within %2; look whether it is reachable, or wait longer with --connect-timeout"_s
                           .arg(serverText(), durationText(m_connectTimer.intervalAsDuration()))
                 : text);
    Q_EMIT failed();
}

} // namespace Cli
