// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "engine/zookeeper/zookeeperengine.h"

#include "base/identity.h"
#include "base/leaseclock.h"
#include "engine/glob.h"
#include "engine/protocolconstants.h"
#include "engine/redis/clientname.h"
#include "engine/zookeeper/nodepath.h"

#include <algorithm>
#include <utility>

using namespace Qt::StringLiterals;

using namespace std::chrono_literals;
using QtZooKeeper::NodeStat;
using QtZooKeeper::Result;
using QtZooKeeper::Session;
using std::chrono::milliseconds;

namespace QDistLock {

namespace {

/// A parent is deleted when it has no children, perhaps between its creation and that of a child.
constexpr int CreationAttempts = 5;
/// A lock is not granted for less than this part of the session's time-out.
constexpr int LeastPart = 4;

Session::Options sessionOptions(const ZooKeeperUrl &url, const LeaseClock *clock)
{
    Session::Options options;
    for (const QtRedis::Endpoint &server : url.servers)
        options.servers.append({server.host, server.port});
    options.timeout = url.session;
    options.now = [clock] { return clock->now().time_since_epoch(); };
    return options;
}

/// Readers keep their fencing token in the data of the lock's node, behind this text. The next writer deletes both.
constexpr char ReadersTokenPrefix[] = "qdistlock:readers:";

/// 0 if \a data are not ours.
qint64 readersTokenOf(const QByteArray &data)
{
    return data.startsWith(ReadersTokenPrefix) ? data.sliced(qstrlen(ReadersTokenPrefix)).toLongLong() : 0;
}

/// Who has made a node with \a data; connected, because the node exists only while its session lives.
LockClient clientOf(const QByteArray &data)
{
    const auto name = ClientName::parse(data).value_or(ClientName());
    return name.identity.client(name.client, true);
}

/// The last of those \a before the node of \a token in the queue that keep it out; -1 if there is none.
qsizetype blockerOf(const QByteArray &token, const QList<NodePath::Member> &before)
{
    qsizetype last = before.size() - 1;
    while (Token::isReader(token) && last >= 0 && before.at(last).isReader)
        --last;
    return last;
}

} // namespace

/// A node of this client in the queue of a lock.
struct ZooKeeperEngine::Place
{
    QByteArray parent;
    QByteArray prefix;       ///< what its name begins with, see NodePath::waiterPrefix()
    QByteArray name;         ///< empty: not known to exist
    bool isWatched = false;  ///< its deletion will be noticed
    bool isGranted = false;  ///< it holds the lock
    LeaseTime leaseEnd{};    ///< then, if it is not renewed
    bool mayExist = false;   ///< no answer came to its creation
    bool isUnwanted = false; ///< being deleted by this client, perhaps before it is known to exist
    qint64 created = 0;      ///< if it is watched: the number of the transaction; a writer's fencing token
    QByteArray predecessor;  ///< name of the node that it waits for, if that is watched

    QByteArray path() const { return parent + '/' + name; }
    void forget()
    {
        name.clear();
        isWatched = false;
        isGranted = false;
    }
};

struct ZooKeeperEngine::Attempt
{
    Acquire operation;
    Completion completion;
    PlacePointer place;
    int creations = 0;
};

ZooKeeperEngine::ZooKeeperEngine(const ZooKeeperUrl &url, const LeaseClock *clock, QObject *parent)
    : LockEngine(parent)
    , m_url(url)
    , m_clock(clock)
    , m_session(sessionOptions(url, clock))
{
    connect(&m_session, &Session::stateChanged, this, &ZooKeeperEngine::sessionChanged);
    connect(&m_session, &Session::failed, this, &LockEngine::failed);
    m_sessionTimer.callOnTimeout(this, &ZooKeeperEngine::beat);
}

ZooKeeperEngine::~ZooKeeperEngine()
{
    m_session.disconnect(this);
    m_session.close();
}

void ZooKeeperEngine::open()
{
    if (m_session.state() == Session::Connecting || m_session.state() == Session::Connected)
        return;
    QString problem;
    const auto password = m_url.readPassword(&problem);
    m_loginError = EngineError();
    if (password)
        return m_session.open(m_url.user, *password);
    m_loginError = EngineError::permanent(DistributedLock::AuthenticationError,
                                          m_url.toDisplayString() + u": "_s + problem + u'.');
    QMetaObject::invokeMethod(this, &LockEngine::failed, Qt::QueuedConnection);
}

LockEngine::State ZooKeeperEngine::state() const
{
    switch (m_session.state()) {
    case Session::Connected:
        return Ready;
    case Session::Connecting:
        return Connecting;
    default:
        return Disconnected;
    }
}

EngineError ZooKeeperEngine::error() const
{
    if (m_loginError)
        return m_loginError;
    if (m_session.state() == Session::Connected || m_session.errorString().isEmpty())
        return {};
    const QString text = m_url.toDisplayString() + u": "_s + m_session.errorString() + u'.';
    if (m_session.state() == Session::LoginFailed)
        return EngineError::permanent(DistributedLock::AuthenticationError, text);
    return EngineError::passing(DistributedLock::ConnectionError, text);
}

QString ZooKeeperEngine::unsupported(const LockOptions &options) const
{
    if (options.minReplicas > 0) {
        return u"minReplicas is %1, but a majority of the ensemble always has the lock; leave it 0 there"_s.arg(
                options.minReplicas);
    }
    if (options.permits != 0)
        return noSharing(options, u"this version has no semaphores with ZooKeeper"_s);
    const milliseconds granted = m_session.timeout();
    const milliseconds session = granted > 0ms ? granted : m_url.session;
    if (options.lease <= session)
        return QString();
    return u"the lease of %1 ms is longer than the session of %2 ms; use a shorter lease, or a longer session: session= in the URL, and maxSessionTimeout of the servers"_s
            .arg(options.lease.count())
            .arg(session.count());
}

void ZooKeeperEngine::sessionChanged()
{
    switch (m_session.state()) {
    case Session::Connected:
        if (std::exchange(m_sessionId, m_session.id()) != m_session.id()) {
            m_life.begin(LeaseTime(m_session.askedAt()), m_session.timeout());
        } else {
            m_life.resume(LeaseTime(m_session.askedAt()), m_session.timeout());
        }
        m_sessionTimer.start(m_session.timeout() / 4);
        removeLeftOvers();
        break;
    case Session::Expired:
    case Session::LoginFailed:
        // The ensemble has deleted all nodes of the session.
        m_places.clear();
        m_leftOvers.clear();
        m_toRemove.clear();
        m_sessionTimer.stop();
        if (m_session.state() == Session::Expired && need().connection)
            open();
        break;
    default:
        break;
    }
    Q_EMIT stateChanged();
    Q_EMIT wakeableChanged();
    if (m_session.state() == Session::LoginFailed)
        Q_EMIT failed();
}

/// Keeps the session known to live while nothing else is asked, and gives back the locks whose token was handed to
/// somebody who did not renew them in time: nobody else counts their leases.
void ZooKeeperEngine::beat()
{
    if (state() == Ready)
        ask([&](Done done) { m_session.read(m_url.folder(), nullptr, std::move(done)); }, nullptr);
    for (auto it = m_places.begin(); it != m_places.end();) {
        const PlacePointer place = *it;
        const bool isOver = place->isGranted && m_clock->now() > place->leaseEnd;
        it = isOver ? m_places.erase(it) : std::next(it);
        if (isOver) {
            place->isUnwanted = true;
            removeForCertain(place->path());
        }
    }
}

QByteArray ZooKeeperEngine::parentOf(const LockId &lock) const
{
    return m_url.chroot + '/' + NodePath::escaped(lock.key());
}

QByteArray ZooKeeperEngine::ownData() const
{
    return ClientName{clientId(), Identity::ofThisProcess()}.toByteArray();
}

void ZooKeeperEngine::reply(Completion completion, const EngineReply &reply)
{
    QMetaObject::invokeMethod(
            this, [completion = std::move(completion), reply] { completion(reply); }, Qt::QueuedConnection);
}

EngineError ZooKeeperEngine::errorOf(const Result &result) const
{
    const QString text = m_url.toDisplayString() + u": "_s;
    if (result.isUnknown()) {
        return EngineError::passing(DistributedLock::ConnectionError,
                                    text + u"the connection ended before an answer came."_s)
                .maybeExecuted();
    }
    if (state() != Ready) {
        const EngineError own = error();
        return own ? own
                   : EngineError::passing(DistributedLock::ConnectionError, text + u"there is no connection yet."_s);
    }
    if (result.isRefused()) {
        const QString why = u"the user may not do this there (%1)"_s.arg(result.errorString());
        return EngineError::permanent(
                DistributedLock::PermissionError,
                text + why
                        + u"; check user and password, and grant create, read, write and delete on the node of the path and on those in it"_s);
    }
    if (result.isOk())
        return EngineError::passing(DistributedLock::ServerError,
                                    text + u"somebody else deletes this client's node."_s);
    return EngineError::passing(DistributedLock::ServerError, text + result.errorString() + u'.');
}

/// Why a reader does not take the lock: it would overwrite them.
EngineError ZooKeeperEngine::foreignData(const QByteArray &parent) const
{
    return EngineError::permanent(
            DistributedLock::ForeignTypeError,
            u"%1: the node %2 has data of another program, and readers keep their fencing token there; it was left as it is; delete the data, or use another name or path"_s
                    .arg(m_url.toDisplayString(), QString::fromUtf8(parent)));
}

EngineReply ZooKeeperEngine::failure(const Result &result) const
{
    EngineReply reply;
    reply.error = errorOf(result);
    return reply;
}

void ZooKeeperEngine::ask(const std::function<void(Done)> &operation, Done received, bool isWrite)
{
    const LeaseTime sentAt = m_clock->now();
    operation([this, isWrite, sentAt, session = m_sessionId, received = std::move(received)](const Result &result) {
        if (result.isAnswered() && session == m_sessionId && state() == Ready) {
            m_life.answered(sentAt);
            if (isWrite)
                m_life.confirmed(sentAt);
        }
        if (received)
            received(result);
    });
}

void ZooKeeperEngine::acquire(const Acquire &operation, Completion completion)
{
    auto attempt = std::make_shared<Attempt>();
    attempt->operation = operation;
    attempt->completion = std::move(completion);
    if (state() != Ready)
        return reply(std::move(attempt->completion), failure({}));
    if (operation.lease > m_session.timeout()) {
        LockOptions options;
        options.lease = operation.lease;
        EngineReply answer;
        answer.error = EngineError::permanent(DistributedLock::OptionsError, unsupported(options));
        return reply(std::move(attempt->completion), answer);
    }
    PlacePointer &place = m_places[operation.token];
    if (!place) {
        place = std::make_shared<Place>();
        place->parent = parentOf(operation.lock);
        place->prefix = NodePath::waiterPrefix(operation.token);
    }
    attempt->place = place;
    if (!place->name.isEmpty())
        return readQueue(attempt);
    if (place->mayExist)
        return findPlace(attempt);
    if (operation.enqueue)
        return createPlace(attempt);
    // Whoever does not wait asks first, so that others need not pass its node.
    ask([&](Done done) { m_session.children(place->parent, std::move(done)); },
        [this, attempt](const Result &result) {
            if (!result.isOk() && !result.isMissing())
                return fail(attempt, result);
            const auto queue = NodePath::queueOf(result.children);
            if (blockerOf(attempt->operation.token, queue) < 0)
                return createPlace(attempt);
            giveUp(attempt);
        });
}

/// No answer came to its creation.
void ZooKeeperEngine::findPlace(const AttemptPointer &attempt)
{
    const PlacePointer place = attempt->place;
    m_session.sync(place->parent, nullptr); // this server may not know of it yet
    ask([&](Done done) { m_session.children(place->parent, std::move(done)); },
        [this, attempt, place](const Result &result) {
            if (!result.isOk() && !result.isMissing())
                return fail(attempt, result);
            const auto own = std::find_if(result.children.cbegin(), result.children.cend(),
                                          [&](const QByteArray &name) { return name.startsWith(place->prefix); });
            if (own == result.children.cend())
                return createPlace(attempt);
            place->mayExist = false;
            placeFound(attempt, *own);
        });
}

/// With its parents in the same turn: whoever is cancelled or killed between them would leave a container that the
/// ensemble never deletes, because it never had a child.
void ZooKeeperEngine::createPlace(const AttemptPointer &attempt, bool withParents)
{
    const PlacePointer place = attempt->place;
    if (!isWanted(attempt) || ++attempt->creations > CreationAttempts)
        return fail(attempt, {});
    const auto parents = std::make_shared<Result>();
    if (withParents)
        createParents(place->parent, [parents](const Result &result) { *parents = result; });
    const auto create = [&](Done done) {
        m_session.create(place->parent + '/' + place->prefix, ownData(), Session::EphemeralSequential, std::move(done));
    };
    place->mayExist = false;
    askToWrite(create, [this, attempt, place, parents](const Result &result) {
        if (result.isOk())
            return placeFound(attempt, result.path.sliced(place->parent.size() + 1));
        if (result.isMissing()) {
            const bool isMade = parents->isOk() || parents->existsAlready();
            return isMade ? createPlace(attempt, true) : fail(attempt, *parents);
        }
        place->mayExist = result.isUnknown();
        if (place->mayExist && !isWanted(attempt))
            m_leftOvers.append({place->parent, place->prefix});
        fail(attempt, result);
    });
}

void ZooKeeperEngine::createParents(const QByteArray &parent, Done done)
{
    // Sent together: the last answer counts.
    for (qsizetype at = parent.indexOf('/', 1); at > 0; at = parent.indexOf('/', at + 1))
        m_session.create(parent.first(at), {}, Session::Container, nullptr);
    m_session.create(parent, {}, Session::Container, std::move(done));
}

void ZooKeeperEngine::placeFound(const AttemptPointer &attempt, const QByteArray &name)
{
    const PlacePointer place = attempt->place;
    place->name = name;
    if (!isWanted(attempt)) {
        removeForCertain(place->path());
        return fail(attempt, {});
    }
    readQueue(attempt);
}

/// Whoever takes the lock away by force deletes the node.
void ZooKeeperEngine::watchPlace(const PlacePointer &place, const QByteArray &token)
{
    const auto gone = [this, place, token, name = place->name] {
        if (place->name != name)
            return;
        const bool wasGranted = place->isGranted;
        place->forget();
        if (place->isUnwanted || m_places.value(token) != place)
            return;
        if (wasGranted)
            m_places.remove(token);
        Q_EMIT noticed(wasGranted ? ForcedRelease : Grant, Token::sequenceOf(token), 0ms); // or wait again
    };
    const auto changed = [this, place, token, gone](bool isDeleted) {
        if (isDeleted)
            gone();
        else if (!place->isUnwanted) // somebody has changed its data
            watchPlace(place, token);
    };
    m_session.read(place->path(), changed, [this, place, gone, name = place->name](const Result &result) {
        if (place->name != name)
            return;
        // One that was created for an earlier session, which is about to end, looks the same.
        const bool isOwn = result.isOk() && result.stat.owner == m_sessionId;
        place->isWatched = isOwn;
        if (isOwn)
            place->created = result.stat.created;
        if (result.isMissing() || (result.isOk() && !isOwn))
            gone();
    });
}

void ZooKeeperEngine::readQueue(const AttemptPointer &attempt)
{
    const PlacePointer place = attempt->place;
    if (!place->isWatched)
        watchPlace(place, attempt->operation.token); // answered before what follows
    ask([&](Done done) { m_session.children(place->parent, std::move(done)); },
        [this, attempt, place](const Result &result) {
            if (!result.isOk() && !result.isMissing())
                return fail(attempt, result);
            const auto queue = NodePath::queueOf(result.children);
            const auto own = std::find_if(queue.cbegin(), queue.cend(),
                                          [&](const NodePath::Member &member) { return member.name == place->name; });
            if (own == queue.cend() || place->name.isEmpty()) { // somebody has deleted it
                place->forget();
                return createPlace(attempt);
            }
            if (!place->isWatched)
                return fail(attempt, {});
            const qsizetype position = own - queue.cbegin();
            const qsizetype blocker = blockerOf(attempt->operation.token, queue.first(position));
            if (blocker < 0)
                return enter(attempt, result.stat);
            const int ahead = int(position - NodePath::holdersIn(queue));
            if (attempt->operation.enqueue)
                return watchPredecessor(attempt, queue.at(blocker).name, ahead);
            giveUp(attempt);
        });
}

void ZooKeeperEngine::watchPredecessor(const AttemptPointer &attempt, const QByteArray &name, int position)
{
    const PlacePointer place = attempt->place;
    EngineReply taken;
    taken.status = EngineReply::Taken;
    taken.queuePosition = position;
    taken.arrival = place->name;
    if (place->predecessor == name)
        return finish(attempt, taken);
    const auto changed = [this, place, name, token = attempt->operation.token](bool) {
        if (place->predecessor == name)
            place->predecessor.clear();
        if (!place->isUnwanted && m_places.value(token) == place)
            Q_EMIT noticed(Grant, Token::sequenceOf(token), 0ms);
    };
    ask([&](Done done) { m_session.read(place->parent + '/' + name, changed, std::move(done)); },
        [this, attempt, place, name, taken](const Result &result) {
            if (result.isMissing())
                return readQueue(attempt); // it has just been deleted
            if (!result.isOk())
                return fail(attempt, result);
            place->predecessor = name;
            finish(attempt, taken);
        });
}

/// Nobody before it keeps it out. Readers that hold the lock together share a fencing token, which is kept in the data
/// of the lock's node, \a parent; the next writer deletes it before it is granted.
void ZooKeeperEngine::enter(const AttemptPointer &attempt, const NodeStat &parent)
{
    const PlacePointer place = attempt->place;
    const bool isReader = Token::isReader(attempt->operation.token);
    if (parent.dataSize == 0)
        return isReader ? setReadersToken(attempt, place->created, parent.version) : grant(attempt, place->created);
    ask([&](Done done) { m_session.read(place->parent, nullptr, std::move(done)); },
        [this, attempt, place, isReader](const Result &result) {
            // The client's own node was deleted, and then a writer has deleted the token, or the lock's node has gone.
            if (result.isMissing() || (result.isOk() && result.data.isEmpty()) || place->name.isEmpty())
                return readQueue(attempt);
            if (!result.isOk())
                return fail(attempt, result);
            const qint64 readersToken = readersTokenOf(result.data);
            if (isReader && readersToken != 0)
                return grant(attempt, readersToken);
            if (!isReader && readersToken == 0)
                return grant(attempt, place->created);
            if (!isReader)
                return setReadersToken(attempt, 0, result.stat.version);
            EngineReply refused;
            refused.error = foreignData(place->parent);
            finish(attempt, refused);
        });
}

/// \a fencingToken 0: there are no readers. Nothing is written if the client's own node has gone, because others may
/// hold the lock then.
void ZooKeeperEngine::setReadersToken(const AttemptPointer &attempt, qint64 fencingToken, int version)
{
    const PlacePointer place = attempt->place;
    const QByteArray data = fencingToken != 0 ? ReadersTokenPrefix + QByteArray::number(fencingToken) : QByteArray();
    if (!isWanted(attempt))
        return fail(attempt, {});
    askToWrite([&](Done done) { m_session.write(place->parent, data, version, place->path(), std::move(done)); },
               [this, attempt, place, fencingToken](const Result &result) {
                   if (result.isMissing() || result.isOutdated())
                       return readQueue(attempt);
                   if (!result.isOk())
                       return fail(attempt, result);
                   grant(attempt, fencingToken != 0 ? fencingToken : place->created);
               });
}

void ZooKeeperEngine::grant(const AttemptPointer &attempt, qint64 fencingToken, bool isProven)
{
    const PlacePointer place = attempt->place;
    if (!isWanted(attempt)) // its session may have ended, too
        return fail(attempt, {});
    if (place->name.isEmpty())
        return createPlace(attempt);
    if (m_life.validUntil() - m_clock->now() > m_session.timeout() / LeastPart) {
        place->isGranted = true;
        place->leaseEnd = m_clock->now() + attempt->operation.lease;
        EngineReply granted;
        granted.status = EngineReply::Granted;
        granted.fencingToken = fencingToken;
        granted.validUntil = m_life.validUntil();
        return finish(attempt, granted);
    }
    if (isProven) { // once more, when what has been heard by now counts: see SessionLife
        QTimer::singleShot(m_session.timeout() / 4, this,
                           [this, attempt, fencingToken] { grant(attempt, fencingToken); });
        return;
    }
    prove([this, attempt, fencingToken](const Result &result) {
        if (result.isAnswered())
            grant(attempt, fencingToken, true);
        else
            fail(attempt, result);
    });
}

/// Neither was it abandoned nor has the session ended since it began.
bool ZooKeeperEngine::isWanted(const AttemptPointer &attempt) const
{
    return m_places.value(attempt->operation.token) == attempt->place;
}

/// Somebody else holds the lock, and the request does not wait.
void ZooKeeperEngine::giveUp(const AttemptPointer &attempt)
{
    EngineReply taken;
    taken.status = EngineReply::Taken;
    finish(attempt, taken);
}

/// Whoever does not wait leaves no node behind. If it is not known whether there is one, the token will be abandoned.
void ZooKeeperEngine::finish(const AttemptPointer &attempt, const EngineReply &reply)
{
    const PlacePointer place = attempt->place;
    if (reply.status == EngineReply::Granted || attempt->operation.enqueue || place->isGranted || place->mayExist)
        return std::exchange(attempt->completion, nullptr)(reply);
    if (isWanted(attempt)) {
        m_places.remove(attempt->operation.token);
        place->isUnwanted = true;
        if (!place->name.isEmpty())
            removeForCertain(place->path());
    }
    std::exchange(attempt->completion, nullptr)(reply);
}

void ZooKeeperEngine::fail(const AttemptPointer &attempt, const Result &result)
{
    finish(attempt, failure(result));
}

/// One write proves it for all who ask in one turn of the event loop. It deletes a node that never exists, so it
/// changes nothing, and wakes nobody who watches a node.
void ZooKeeperEngine::prove(Done proven)
{
    m_toProve.push_back(std::move(proven));
    if (m_toProve.size() > 1)
        return;
    const auto write = [this] {
        askToWrite([&](Done done) { m_session.remove(m_url.chroot + "/qdistlock-proof", std::move(done)); },
                   [waiting = std::exchange(m_toProve, {})](const Result &result) {
                       for (const Done &proven : waiting)
                           proven(result);
                   });
    };
    QMetaObject::invokeMethod(this, write, Qt::QueuedConnection);
}

void ZooKeeperEngine::renew(const LockId &lock, const QByteArray &token, milliseconds lease, const Replicas &,
                            Completion completion)
{
    const PlacePointer place = m_places.value(token);
    if (state() != Ready)
        return reply(std::move(completion), failure({}));
    if (!place || !place->isGranted)
        return replyWithoutPlace(lock, token, std::move(completion));
    place->leaseEnd = m_clock->now() + lease;
    // If the node has been deleted, that is heard of before the answer to a later write: unless a look at changed data
    // has failed, and nobody watches it any more.
    if (!place->isWatched)
        watchPlace(place, token);
    prove([this, lock, token, place, completion = std::move(completion)](const Result &result) {
        if (m_places.value(token) != place || !place->isGranted)
            return replyWithoutPlace(lock, token, completion);
        if (!result.isAnswered())
            return completion(failure(result));
        EngineReply answer;
        answer.status = EngineReply::Done;
        answer.validUntil = m_life.validUntil();
        completion(answer);
    });
}

/// This client has no node that holds the lock.
void ZooKeeperEngine::replyWithoutPlace(const LockId &lock, const QByteArray &token, Completion completion)
{
    m_session.children(parentOf(lock), [this, token, completion = std::move(completion)](const Result &result) {
        if (!result.isOk() && !result.isMissing())
            return completion(failure(result));
        EngineReply answer;
        const auto queue = NodePath::queueOf(result.children);
        const bool isOthers = !queue.isEmpty() && !(queue.first().isReader && Token::isReader(token));
        answer.status = isOthers ? EngineReply::Stolen : EngineReply::Gone;
        completion(answer);
    });
}

void ZooKeeperEngine::release(const LockId &lock, const QByteArray &token, milliseconds, milliseconds keep,
                              Completion completion)
{
    const PlacePointer place = m_places.value(token);
    if (!place || !place->isGranted)
        return replyWithoutPlace(lock, token, std::move(completion));
    place->isUnwanted = true;
    if (keep > 0ms) {
        m_places.remove(token);
        QTimer::singleShot(keep, Qt::PreciseTimer, this, [this, path = place->path()] { removeForCertain(path); });
        EngineReply answer;
        answer.status = EngineReply::Done;
        return reply(std::move(completion), answer);
    }
    askToWrite([&, path = place->path()](Done done) { m_session.remove(path, std::move(done)); },
               [this, lock, token, place, completion = std::move(completion)](const Result &result) {
                   if (!result.isOk() && !result.isMissing())
                       return completion(failure(result));
                   if (m_places.value(token) == place)
                       m_places.remove(token);
                   if (result.isMissing())
                       return replyWithoutPlace(lock, token, completion);
                   EngineReply answer;
                   answer.status = EngineReply::Done;
                   completion(answer);
               });
}

void ZooKeeperEngine::abandon(const LockId &, const QByteArray &token, milliseconds, milliseconds keep, milliseconds)
{
    const PlacePointer place = m_places.take(token);
    if (!place)
        return;
    place->isUnwanted = true;
    if (!place->name.isEmpty()) {
        QTimer::singleShot(std::max(keep, 0ms), Qt::PreciseTimer, this,
                           [this, path = place->path()] { removeForCertain(path); });
    } else if (place->mayExist) {
        m_leftOvers.append({place->parent, place->prefix});
        removeLeftOvers();
    } // if its creation has not been answered yet, see placeFound()
}

/// Deletes it, until that has succeeded or the session has ended.
void ZooKeeperEngine::removeForCertain(const QByteArray &path)
{
    m_toRemove.insert(path);
    m_session.remove(path, [this, path](const Result &result) {
        if (!result.isUnknown())
            m_toRemove.remove(path);
    });
}

void ZooKeeperEngine::removeLeftOvers()
{
    if (state() != Ready)
        return;
    const QSet<QByteArray> paths = m_toRemove;
    for (const QByteArray &path : paths)
        removeForCertain(path);
    const auto leftOvers = std::exchange(m_leftOvers, {});
    for (const auto &[parent, prefix] : leftOvers) {
        m_session.sync(parent, nullptr); // this server may not know of it yet
        m_session.children(parent, [this, parent = parent, prefix = prefix](const Result &result) {
            if (result.isUnknown())
                m_leftOvers.append({parent, prefix});
            for (const QByteArray &name : result.children) {
                if (name.startsWith(prefix))
                    removeForCertain(parent + '/' + name);
            }
        });
    }
}

void ZooKeeperEngine::inspect(const LockId &lock, std::function<void(const EngineError &, const LockInfo &)> completion)
{
    inspectParent(parentOf(lock), std::move(completion));
}

void ZooKeeperEngine::inspectParent(const QByteArray &parent,
                                    std::function<void(const EngineError &, const LockInfo &)> completion)
{
    m_session.children(parent, [this, parent, completion = std::move(completion)](const Result &listed) {
        const auto queue = NodePath::queueOf(listed.children);
        if (!listed.isOk() && !listed.isMissing())
            return completion(errorOf(listed), {});
        if (queue.isEmpty())
            return completion({}, {});
        struct Inspection
        {
            LockInfo info;
            EngineError error;
            qsizetype left = 0;
        };
        const auto inspection = std::make_shared<Inspection>();
        LockInfo &info = inspection->info;
        const bool isShared = queue.first().isReader;
        info.remaining = -1ms; // as long as the sessions live
        info.readerCount = isShared ? int(NodePath::holdersIn(queue)) : 0;
        info.queueLength = int(queue.size() - NodePath::holdersIn(queue));
        const auto received = [=](const Result &result, qint64 fencingToken) {
            LockInfo &info = inspection->info;
            if (result.isOk()) {
                const LockClient client = clientOf(result.data);
                if (!std::exchange(info.held, true))
                    info.holder = client;
                if (isShared)
                    info.holders.append(client);
            } else if (!result.isMissing()) {
                inspection->error = errorOf(result);
            }
            info.fencingToken = std::max(info.fencingToken, fencingToken);
            info.foreign = info.holder.id.isEmpty();
            if (--inspection->left > 0)
                return;
            if (!info.held && !inspection->error)
                return inspectParent(parent, completion); // it was released meanwhile
            completion(inspection->error, inspection->error ? LockInfo() : info);
        };
        const qsizetype shown = std::min<qsizetype>(NodePath::holdersIn(queue), Protocol::ShownAtMost);
        inspection->left = shown;
        readHolder(parent, queue.first(), received);
        for (qsizetype i = 1; i < shown; ++i) {
            m_session.read(parent + '/' + queue.at(i).name, nullptr,
                           [received](const Result &result) { received(result, 0); });
        }
    });
}

/// \a received gets the node, and the fencing token of those who hold the lock: as long as readers have none, what the
/// first would write.
void ZooKeeperEngine::readHolder(const QByteArray &parent, const NodePath::Member &first,
                                 std::function<void(const Result &, qint64 fencingToken)> received)
{
    const auto shared = std::make_shared<Result>();
    if (first.isReader)
        m_session.read(parent, nullptr, [shared](const Result &result) { *shared = result; });
    m_session.read(parent + '/' + first.name, nullptr, [shared, received = std::move(received)](const Result &node) {
        const qint64 readersToken = readersTokenOf(shared->data);
        received(shared->isOk() ? node : *shared, readersToken != 0 ? readersToken : node.stat.created);
    });
}

void ZooKeeperEngine::list(const QString &prefix, const QString &pattern,
                           std::function<void(const EngineError &, const QList<LockInfo> &)> completion)
{
    m_session.children(m_url.folder(), [=](const Result &listed) {
        if (!listed.isOk() && !listed.isMissing())
            return completion(errorOf(listed), {});
        struct Listing
        {
            QList<LockInfo> locks;
            EngineError error;
            qsizetype left = 0;
        };
        const auto listing = std::make_shared<Listing>();
        QList<QByteArray> keys;
        for (const QByteArray &child : listed.children) {
            const QByteArray key = NodePath::unescaped(child);
            const QByteArray start = prefix.toUtf8();
            if (key.startsWith(start) && globMatches(pattern.toUtf8(), key.sliced(start.size())))
                keys.append(key);
        }
        if (keys.isEmpty())
            return completion({}, {});
        listing->left = keys.size();
        for (const QByteArray &key : std::as_const(keys)) {
            inspectParent(m_url.chroot + '/' + NodePath::escaped(key),
                          [listing, completion, name = key.sliced(prefix.toUtf8().size())](const EngineError &error,
                                                                                           const LockInfo &info) {
                              if (error)
                                  listing->error = error;
                              if (info.held) {
                                  listing->locks.append(info);
                                  listing->locks.last().name = QString::fromUtf8(name);
                              }
                              if (--listing->left == 0)
                                  completion(listing->error, listing->error ? QList<LockInfo>() : listing->locks);
                          });
        }
    });
}

void ZooKeeperEngine::waiters(const LockId &lock, int atMost,
                              std::function<void(const EngineError &, const QList<LockWaiter> &)> completion)
{
    const QByteArray parent = parentOf(lock);
    m_session.children(parent, [=](const Result &listed) {
        if (!listed.isOk() && !listed.isMissing())
            return completion(errorOf(listed), {});
        auto queue = NodePath::queueOf(listed.children);
        queue = queue.sliced(NodePath::holdersIn(queue));
        queue = queue.first(std::min<qsizetype>(queue.size(), atMost));
        if (queue.isEmpty())
            return completion({}, {});
        const auto found = std::make_shared<QList<LockWaiter>>();
        // Once for all, so that nobody seems to have waited for longer than one before it.
        const auto now = std::chrono::duration_cast<milliseconds>(std::chrono::system_clock::now().time_since_epoch());
        for (qsizetype i = 0; i < queue.size(); ++i) {
            const bool isLast = i == queue.size() - 1;
            m_session.read(parent + '/' + queue.at(i).name, nullptr, [=](const Result &result) {
                if (result.isOk()) {
                    LockWaiter waiter;
                    waiter.position = int(found->size());
                    waiter.client = clientOf(result.data);
                    waiter.waited = std::max(0ms, now - result.stat.createdAt);
                    found->append(waiter);
                }
                if (isLast)
                    completion(result.isUnknown() ? errorOf(result) : EngineError(), *found);
            });
        }
    });
}

void ZooKeeperEngine::forceRelease(const LockId &lock, qint64 fencingToken, Completion completion)
{
    const QByteArray parent = parentOf(lock);
    m_session.children(parent, [=, completion = std::move(completion)](const Result &listed) {
        const auto queue = NodePath::queueOf(listed.children);
        EngineReply answer;
        answer.status = EngineReply::Gone;
        if (!listed.isOk() && !listed.isMissing())
            return completion(failure(listed));
        if (queue.isEmpty())
            return completion(answer);
        QList<QByteArray> holders;
        for (const NodePath::Member &member : queue.first(NodePath::holdersIn(queue)))
            holders.append(parent + '/' + member.name);
        readHolder(parent, queue.first(), [=](const Result &result, qint64 known) {
            EngineReply answer;
            if (!result.isOk() && !result.isMissing())
                return completion(failure(result));
            if (result.isMissing() && queue.first().isReader)
                return forceRelease(lock, fencingToken, completion); // others may read still
            answer.status = result.isMissing() ? EngineReply::Gone : EngineReply::Stolen;
            if (result.isMissing() || (fencingToken != 0 && fencingToken != known))
                return completion(answer);
            remove(holders, completion);
        });
    });
}

/// Gone: none of the nodes with these \a paths is there any more.
void ZooKeeperEngine::remove(const QList<QByteArray> &paths, Completion completion)
{
    const auto answer = std::make_shared<EngineReply>();
    answer->status = EngineReply::Gone;
    for (qsizetype i = 0; i < paths.size(); ++i) { // answered in this order
        m_session.remove(paths.at(i), [=, isLast = i == paths.size() - 1](const Result &result) {
            if (!result.isOk() && !result.isMissing())
                *answer = failure(result);
            else if (result.isOk() && answer->status == EngineReply::Gone)
                answer->status = EngineReply::Done;
            if (isLast)
                completion(*answer);
        });
    }
}

} // namespace QDistLock
