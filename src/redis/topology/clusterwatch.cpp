// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "redis/topology/clusterwatch.h"

#include "base/backoff.h"
#include "base/leaseclock.h"
#include "base/postedcall.h"
#include "redis/connection.h"
#include "redis/logging.h"

#include <QtCore/qpointer.h>
#include <QtCore/qrandom.h>
#include <QtCore/qtimer.h>

#include <algorithm>
#include <map>
#include <utility>

using namespace Qt::StringLiterals;

namespace QtRedis {

namespace {

using namespace std::chrono_literals;
using QDistLock::Deadline;
using std::chrono::milliseconds;

/// For connecting to a node, and for its answers.
constexpr milliseconds AnswerTimeout = 1s;
/// For connecting after a time-out: with TLS, it takes up to four round trips.
constexpr milliseconds SlowConnectTimeout = 3s;
/// After the first answer of the first round, for those of the others.
constexpr milliseconds OthersTimeout = 500ms;
constexpr milliseconds RoundTimeout = AnswerTimeout + 100ms;
/// Of the first round, once somebody has answered who does not speak for most nodes of the URL.
constexpr milliseconds SlowRoundTimeout = SlowConnectTimeout + AnswerTimeout;
constexpr milliseconds RefreshInterval = 1s;
constexpr milliseconds SuspectInterval = 300ms; ///< ± a third
constexpr milliseconds LongestSuspectInterval = SuspectInterval * 4 / 3;
constexpr double Jitter = 1.0 / 3;
constexpr milliseconds FirstPause = 200ms; ///< before the first round is repeated; ± a third
constexpr milliseconds LongestPause = 1400ms;
constexpr int SlowPause = 5; ///< times as long, where somebody has to change a setting
constexpr milliseconds ConnectionLife = 10s;
constexpr qsizetype AskedAtMost = 3;

} // namespace

class ClusterWatch::Private
{
public:
    /// A connection to a node, and what it answered in the present round.
    struct Node
    {
        enum Answer : quint8 {
            NotAsked,
            Pending,
            Given,
            Foreign, ///< a view of another cluster than the one that is known
            Failed
        };
        Node(const ServerUrl &server)
            : connection(server)
        {
        }
        Connection connection;
        Answer answer = NotAsked;
        Reply slots;
        ClusterView view;                ///< Given, Foreign
        Failure failure = Failure::None; ///< Failed
        QString problem;
        Deadline usedUntil;
    };

    Private(ClusterWatch *watch, const ServerUrl &cluster);

    void startRound();
    QList<Endpoint> nodesToAsk() const;
    void ask(const Endpoint &endpoint);
    void send(Node *node);
    void slotsReceived(Node *node, const CommandResult &result);
    void viewReceived(Node *node, const CommandResult &result);
    void failNode(Node *node, Failure why, const QString &problem);
    void checkRound();
    bool isOfMostOfUrl() const;
    void endRound();
    void endFirstRound();
    QString otherCluster() const;
    void adopt(const ClusterView &view);
    void adoptOlder();
    void checkForeign();
    bool isContinued() const;
    void logForeign();
    QString lostCluster() const;
    void failRound();
    void fail(Failure why, const QString &text);
    void askLater(milliseconds pause);
    void closeUnused();

    ClusterWatch *const q;
    const ServerUrl cluster;
    QByteArray clientName;
    bool isNeededAt(const std::optional<Endpoint> &master) const { return isNeeded && isNeeded(master); }
    bool isSuspectNeeded() const;

    IsNeeded isNeeded;

    SlotMap map;
    bool isKnown = false;
    QDistLock::PostedCall postedChange{q, [this] { Q_EMIT q->mapChanged(); }};
    QList<Endpoint> known; ///< nodes that a view has named
    QSet<Endpoint> suspects;
    QSet<Endpoint> failed;   ///< of the suspects
    QSet<Endpoint> informed; ///< are asked in the next round, too
    QSet<Endpoint> foreign;  ///< nodes that belong to another cluster, which was logged
    Failure failure = Failure::None;
    QString errorString;

    std::map<Endpoint, std::unique_ptr<Node>> nodes;
    bool isAsking = false;
    bool mustAskAgain = false;
    bool isRefreshDue = false;                     ///< with askTimer: not only for suspects
    bool asksAll = false;                          ///< nobody asked last belongs to the cluster that is known
    bool isUnanswered = false;                     ///< the last round
    QDistLock::BackOff pauses{FirstPause, Jitter}; ///< since the map was known last
    Deadline nextRefresh;
    QTimer othersTimer;
    QTimer roundTimer;
    QTimer askTimer;
    QTimer unusedTimer;
};

ClusterWatch::Private::Private(ClusterWatch *watch, const ServerUrl &cluster)
    : q(watch)
    , cluster(cluster)
{
    for (QTimer *timer : {&othersTimer, &roundTimer, &askTimer})
        timer->setSingleShot(true);
    othersTimer.setInterval(OthersTimeout);
    unusedTimer.setInterval(ConnectionLife / 2);
    QObject::connect(&othersTimer, &QTimer::timeout, q, [this] { endRound(); });
    QObject::connect(&roundTimer, &QTimer::timeout, q, [this] { endRound(); });
    QObject::connect(&askTimer, &QTimer::timeout, q, [this] {
        if (isKnown && !isRefreshDue) {
            if (isSuspectNeeded())
                startRound();
        } else if (!isNeeded || isNeeded({}))
            startRound();
        else
            askTimer.start(LongestPause / 2 * SlowPause);
    });
    QObject::connect(&unusedTimer, &QTimer::timeout, q, [this] { closeUnused(); });
}

// Asking

bool ClusterWatch::Private::isSuspectNeeded() const
{
    return std::any_of(suspects.cbegin(), suspects.cend(),
                       [this](const Endpoint &master) { return isNeededAt(master); });
}

QList<Endpoint> ClusterWatch::Private::nodesToAsk() const
{
    if (!isKnown)
        return cluster.clusterNodes;
    if (asksAll) {
        const QList<Endpoint> all = known + cluster.clusterNodes + map.masters();
        return QSet<Endpoint>(all.cbegin(), all.cend()).values();
    }
    QList<Endpoint> candidates;
    for (const Endpoint &node : known) {
        if (!suspects.contains(node))
            candidates.append(node);
    }
    // What a node knows is the same a second later at all the others.
    for (qsizetype i = 0; i < std::min(AskedAtMost, candidates.size()); ++i) {
        const auto other = QRandomGenerator::global()->bounded(quint32(candidates.size() - i));
        candidates.swapItemsAt(i, i + qsizetype(other));
    }
    candidates = candidates.mid(0, AskedAtMost);
    QList<Endpoint> others(informed.cbegin(), informed.cend());
    // All nodes may have got new addresses, to which the names in the URL lead.
    if (isUnanswered || candidates.isEmpty())
        others += cluster.clusterNodes;
    for (const Endpoint &node : std::as_const(others)) {
        if (!candidates.contains(node))
            candidates.append(node);
    }
    return candidates;
}

void ClusterWatch::Private::startRound()
{
    if (std::exchange(isAsking, true)) {
        mustAskAgain = true;
        return;
    }
    mustAskAgain = isRefreshDue = false;
    askTimer.stop();
    if (isKnown)
        nextRefresh = Deadline(RefreshInterval);
    for (const auto &[endpoint, node] : nodes)
        node->answer = Node::NotAsked;
    roundTimer.start(RoundTimeout);
    const auto asked = nodesToAsk();
    informed.clear();
    for (const Endpoint &endpoint : asked)
        ask(endpoint);
}

void ClusterWatch::Private::ask(const Endpoint &endpoint)
{
    std::unique_ptr<Node> &entry = nodes[endpoint];
    if (!entry) {
        entry = std::make_unique<Node>(cluster.atNode(endpoint));
        Node *const created = entry.get();
        created->connection.setClientName(clientName + "-map");
        created->connection.setConnectTimeout(AnswerTimeout);
        created->connection.setNeeded([this] { return isNeededAt({}); });
        QObject::connect(&created->connection, &Connection::stateChanged, q, [this, created] {
            if (created->answer == Node::Pending && created->connection.state() == Connection::Ready)
                send(created);
        });
        QObject::connect(&created->connection, &Connection::failed, q, [this, created] {
            const bool isTimeout = created->connection.failure() == Failure::Timeout;
            if (isTimeout)
                created->connection.setConnectTimeout(SlowConnectTimeout);
            if (isTimeout && !isKnown && created->answer == Node::Pending)
                created->problem = created->connection.errorString(); // connects again until the round ends
            else if (created->answer == Node::Pending)
                failNode(created, created->connection.failure(), created->connection.errorString());
            else if (!created->connection.isRetryingSlowly())
                created->connection.close();
        });
        unusedTimer.start();
    }
    Node *const node = entry.get();
    node->answer = Node::Pending;
    node->problem.clear();
    node->usedUntil = Deadline(ConnectionLife);
    if (isKnown && node->connection.isRetryingSlowly()) { // with the problem that it had
        node->answer = Node::Failed;
        QMetaObject::invokeMethod(
                q, [this] { checkRound(); }, Qt::QueuedConnection);
        return;
    }
    node->connection.open();
    if (node->connection.state() == Connection::Ready) // otherwise stateChanged() continues
        send(node);
}

void ClusterWatch::Private::send(Node *node)
{
    node->connection.send({"CLUSTER", "SLOTS"}, AnswerTimeout,
                          [this, node](const CommandResult &result) { slotsReceived(node, result); });
    node->connection.send({"CLUSTER", "NODES"}, AnswerTimeout,
                          [this, node](const CommandResult &result) { viewReceived(node, result); });
}

void ClusterWatch::Private::slotsReceived(Node *node, const CommandResult &result)
{
    // Otherwise failed() follows.
    node->slots = result.outcome == CommandResult::Replied ? result.reply : Reply();
}

void ClusterWatch::Private::viewReceived(Node *node, const CommandResult &result)
{
    if (node->answer != Node::Pending || result.outcome != CommandResult::Replied)
        return;
    const ServerUrl &server = node->connection.server();
    const Reply slots = std::exchange(node->slots, {});
    if (slots.isError()) {
        const QString said = server.shown(slots.text);
        if (slots.errorCode() == "NOPERM") {
            failNode(
                    node, Failure::Permission,
                    u"%1: the server's ACL forbids CLUSTER SLOTS (\"%2\"); allow the commands that docs/servers.md lists for a cluster."_s
                            .arg(server.toDisplayString(), said));
        } else if (slots.errorCode() == "ERR" || slots.text.contains("cluster support disabled")) {
            failNode(
                    node, Failure::Service,
                    u"%1: the server is no node of a Redis Cluster (\"%2\"); use %3:// for it, or the address of a node."_s
                            .arg(server.toDisplayString(), said,
                                 server.scheme == ServerUrl::Tls ? u"rediss"_s : u"redis"_s));
        } else {
            failNode(node, Failure::Server, u"%1: %2."_s.arg(server.toDisplayString(), said));
        }
        return;
    }
    const auto view = ClusterView::parse(slots, result.reply, server.endpoint());
    if (!view) {
        failNode(node, Failure::Protocol,
                 u"%1: the reply to CLUSTER SLOTS has an unknown form; is it a Redis server?"_s.arg(
                         server.toDisplayString()));
        return;
    }
    if (view->map.servedSlots() == 0 && !slots.elements.isEmpty()) {
        failNode(
                node, Failure::Service,
                u"%1: the node gives no addresses of those that serve slots; set cluster-announce-hostname at each node of the cluster, or cluster-preferred-endpoint-type to ip."_s
                        .arg(server.toDisplayString()));
        return;
    }
    if (view->map.servedSlots() == 0) {
        failNode(
                node, Failure::Server,
                u"%1: the node knows nobody who serves a slot; it belongs to no cluster yet. Add it to one (CLUSTER MEET), or name another node."_s
                        .arg(server.toDisplayString()));
        return;
    }
    node->view = *view;
    const bool isForeign = isKnown && !view->isOfClusterOf(map);
    node->answer = isForeign ? Node::Foreign : Node::Given;
    if (!isForeign)
        foreign.remove(server.endpoint());
    if (isKnown && !isForeign)
        adopt(*view);
    checkRound();
}

void ClusterWatch::Private::failNode(Node *node, Failure why, const QString &problem)
{
    node->answer = Node::Failed;
    node->failure = why;
    node->problem = problem;
    if (!node->connection.isRetryingSlowly())
        node->connection.close();
    qCDebug(lcRedis, "%s", qUtf8Printable(problem));
    checkRound();
}

void ClusterWatch::Private::checkRound()
{
    if (!isAsking)
        return;
    bool isComplete = true;
    bool isGiven = false;
    for (const auto &[endpoint, node] : nodes) {
        isComplete &= node->answer != Node::Pending;
        isGiven |= node->answer == Node::Given;
    }
    if (isComplete)
        endRound();
    else if (!isGiven || othersTimer.isActive())
        return;
    else if (isKnown || isOfMostOfUrl())
        othersTimer.start();
    else if (roundTimer.intervalAsDuration() == RoundTimeout)
        roundTimer.start(SlowRoundTimeout);
}

/// Whether most nodes of the URL have given a view, or are named in one. Otherwise those that are slow may be the
/// majority, of another cluster.
bool ClusterWatch::Private::isOfMostOfUrl() const
{
    const auto isGivenOrNamed = [this](const Endpoint &endpoint) {
        return std::any_of(nodes.begin(), nodes.end(), [&endpoint](const auto &entry) {
            const Node &node = *entry.second;
            return node.answer == Node::Given && (entry.first == endpoint || node.view.nodes.contains(endpoint));
        });
    };
    const auto count = std::count_if(cluster.clusterNodes.cbegin(), cluster.clusterNodes.cend(), isGivenOrNamed);
    return 2 * count > cluster.clusterNodes.size();
}

void ClusterWatch::Private::endRound()
{
    if (!std::exchange(isAsking, false))
        return;
    othersTimer.stop();
    roundTimer.stop();
    for (const auto &[endpoint, node] : nodes) {
        if (node->answer == Node::Pending) {
            node->answer = Node::Failed;
            node->failure = Failure::Timeout;
            if (node->problem.isEmpty()) {
                node->problem = u"%1: no answer within %2 ms."_s.arg(node->connection.server().toDisplayString())
                                        .arg(AnswerTimeout.count());
            }
            // The connection stays: a node that is only slow may be connected in the next round.
        }
    }
    if (isKnown) {
        isUnanswered = std::none_of(nodes.begin(), nodes.end(),
                                    [](const auto &entry) { return entry.second->answer == Node::Given; });
        checkForeign();
        adoptOlder();
    }
    if (!isKnown)
        endFirstRound();
    else if (mustAskAgain || asksAll) {
        isRefreshDue = true;
        askLater(nextRefresh.remaining());
    } else if (isSuspectNeeded())
        askLater(SuspectInterval);
}

/// The text about two nodes of the URL that belong to different clusters; empty if there are none.
QString ClusterWatch::Private::otherCluster() const
{
    const Node *first = nullptr;
    for (const auto &[endpoint, node] : nodes) {
        if (node->answer != Node::Given || node->view.self.isEmpty())
            continue;
        if (!first)
            first = node.get();
        else if (!first->view.members.contains(node->view.self) && !node->view.members.contains(first->view.self))
            return u"%1 and %2 belong to different clusters; name the nodes of one."_s.arg(
                    first->connection.server().toDisplayString(), node->connection.server().toDisplayString());
    }
    return QString();
}

void ClusterWatch::Private::endFirstRound()
{
    const QString problem = otherCluster();
    if (!problem.isEmpty())
        return fail(Failure::Service, problem);
    const bool isGiven = std::any_of(nodes.begin(), nodes.end(),
                                     [](const auto &entry) { return entry.second->answer == Node::Given; });
    if (!isGiven)
        return failRound();
    for (const auto &[endpoint, node] : nodes) {
        if (node->answer == Node::Failed && node->failure == Failure::Service)
            qCWarning(lcRedis, "%s", qUtf8Printable(node->problem));
    }
    isKnown = true;
    pauses.reset();
    failure = Failure::None;
    errorString.clear();
    for (const auto &[endpoint, node] : nodes) {
        if (node->answer == Node::Given) {
            adopt(node->view);
        } else if (node->failure == Failure::Timeout) { // it may belong to another cluster, which would be logged
            nextRefresh = Deadline(RefreshInterval);
            q->refresh(endpoint);
        }
    }
}

void ClusterWatch::Private::adopt(const ClusterView &view)
{
    known = view.nodes;
    if (map.merge(view.map, {}, suspects))
        postedChange.post();
}

/// Most masters may have been replaced since the map was asked for last, or their addresses may have got a new cluster,
/// whose ids and epochs say nothing about the former one. As long as a node of the known cluster answers, that is no
/// proof. Nor is the silence of its masters, even if all addresses of the URL belong to another cluster: other clients
/// may still reach them.
void ClusterWatch::Private::checkForeign()
{
    const auto hasAnswer = [this](Node::Answer answer) {
        return std::any_of(nodes.begin(), nodes.end(),
                           [answer](const auto &entry) { return entry.second->answer == answer; });
    };
    const bool haveAllBeenAsked = asksAll;
    asksAll = hasAnswer(Node::Foreign) && !hasAnswer(Node::Given);
    const bool isLost = asksAll && haveAllBeenAsked;
    const bool isNew = isLost && isContinued();
    errorString = isLost && !isNew ? lostCluster() : QString();
    if (!isNew) {
        if (isLost || !asksAll)
            logForeign();
        return;
    }
    asksAll = false;
    qCWarning(
            lcRedis,
            "%s: since its nodes were asked last, most of its masters were replaced, or their addresses have got a new cluster; what the nodes say that are there now counts from now on",
            qUtf8Printable(cluster.toDisplayString()));
    map = {};
    foreign.clear();
    for (const auto &[endpoint, node] : nodes) {
        if (node->answer != Node::Foreign || !node->view.isOfClusterOf(map))
            continue;
        known = node->view.nodes;
        map.merge(node->view.map, {});
    }
    postedChange.post();
}

/// Whether all that are foreign belong to one cluster, to which most addresses of the known masters belong, or one of
/// these masters itself.
bool ClusterWatch::Private::isContinued() const
{
    const QList<Endpoint> masters = map.masters();
    const Node *first = nullptr;
    qsizetype count = 0;
    bool hasMaster = false;
    for (const auto &[endpoint, node] : nodes) {
        if (node->answer != Node::Foreign)
            continue;
        if (!first)
            first = node.get();
        else if (!node->view.isOfClusterOf(first->view.map))
            return false;
        count += masters.contains(endpoint);
        hasMaster |= node->view.isOfMasterThatStayed(map);
    }
    return hasMaster || 2 * count > masters.size();
}

void ClusterWatch::Private::logForeign()
{
    for (const auto &[endpoint, node] : nodes) {
        if (node->answer != Node::Foreign || foreign.contains(endpoint))
            continue;
        foreign.insert(endpoint);
        qCWarning(
                lcRedis,
                "%s: the node belongs to another cluster than the one that %s has led to, and what it says about slots does not count; name the nodes of one cluster, and give their addresses to no other one.",
                qUtf8Printable(node->connection.server().toDisplayString()), qUtf8Printable(cluster.toDisplayString()));
    }
}

/// The text about nodes of another cluster, if no other ones can be asked.
QString ClusterWatch::Private::lostCluster() const
{
    const auto listed = [](const QList<Endpoint> &endpoints) {
        QStringList names;
        for (const Endpoint &endpoint : endpoints.mid(0, AskedAtMost))
            names.append(endpoint.toString());
        return names.join(u", "_s) + (endpoints.size() > AskedAtMost ? u", …"_s : QString());
    };
    QList<Endpoint> others;
    for (const auto &[endpoint, node] : nodes) {
        if (node->answer == Node::Foreign)
            others.append(endpoint);
    }
    return u"%1: no node of the cluster to which it has led can be asked (its masters were %2), and those that answer "
           u"(%3) belong to another cluster, or have replaced all of these masters since this program asked last. "
           u"Other programs may still use the former ones, so this program does not change to the others. "
           u"If the former ones are gone for good, start this program again, and all others that use them; otherwise "
           u"start these nodes, or check the network."_s.arg(cluster.toDisplayString(), listed(map.masters()),
                                                             listed(others));
}

/// For a cluster that was set up again, with small epochs. One node with an old view is no reason to leave a master
/// that another node still names.
void ClusterWatch::Private::adoptOlder()
{
    QSet<Endpoint> gone = failed;
    for (const auto &[endpoint, node] : nodes) {
        if (!gone.isEmpty() && node->answer == Node::Given)
            gone.subtract(map.confirmedBy(node->view.map));
    }
    SlotMap named; // those that any of them names
    for (const auto &[endpoint, node] : nodes) {
        if (!gone.isEmpty() && node->answer == Node::Given)
            named.merge(node->view.map, {});
    }
    if (!gone.isEmpty() && map.merge(named, gone))
        postedChange.post();
}

void ClusterWatch::Private::failRound()
{
    const Node *telling = nullptr; // somebody has to change a setting
    bool isPassing = false;
    for (const auto &[endpoint, node] : nodes) {
        if (node->answer != Node::Failed)
            continue;
        isPassing |= !isPermanent(node->failure);
        if (!telling || (isPermanent(node->failure) && !isPermanent(telling->failure)))
            telling = node.get();
    }
    if (!telling)
        return;
    if (isPermanent(telling->failure))
        fail(isPassing ? Failure::Server : telling->failure, telling->problem);
    else
        fail(telling->failure,
             u"%1: none of its %2 nodes can be asked for the slots; check their addresses, and whether they run (%3)"_s
                     .arg(cluster.toDisplayString())
                     .arg(cluster.clusterNodes.size())
                     .arg(telling->problem));
}

void ClusterWatch::Private::fail(Failure why, const QString &text)
{
    failure = why;
    errorString = text;
    const auto pause = pauses.next(LongestPause) * (isPermanent(why) ? SlowPause : 1);
    askTimer.start(std::chrono::round<milliseconds>(pause));
    qCDebug(lcRedis, "%s", qUtf8Printable(text));
    Q_EMIT q->failed();
}

/// \a pause ± a third.
void ClusterWatch::Private::askLater(milliseconds pause)
{
    askTimer.start(std::chrono::round<milliseconds>(QDistLock::jittered(pause, Jitter)));
}

void ClusterWatch::Private::closeUnused()
{
    for (auto it = nodes.begin(); it != nodes.end();) {
        if (!isAsking && it->second->usedUntil.hasExpired())
            it = nodes.erase(it);
        else
            ++it;
    }
    if (nodes.empty())
        unusedTimer.stop();
}

// The public class

ClusterWatch::ClusterWatch(const ServerUrl &cluster, QObject *parent)
    : QObject(parent)
    , d(std::make_unique<Private>(this, cluster))
{
}

ClusterWatch::~ClusterWatch() = default;

void ClusterWatch::setClientName(const QByteArray &name)
{
    d->clientName = name;
}

void ClusterWatch::setNeeded(IsNeeded isNeeded)
{
    d->isNeeded = std::move(isNeeded);
}

void ClusterWatch::open()
{
    // Between two rounds that failed for a passing reason the next one is due soon.
    const bool isDueSoon = d->askTimer.isActive() && !isPermanent(d->failure) && d->isNeededAt({});
    if (!d->isKnown && !d->isAsking && !isDueSoon)
        d->startRound();
    // The caller's need begins after this call.
    if (d->isKnown && !d->isAsking && !d->suspects.isEmpty() && !d->askTimer.isActive())
        d->askTimer.start(0);
}

void ClusterWatch::refresh(const std::optional<Endpoint> &informed)
{
    if (informed)
        d->informed.insert(*informed);
    if (d->isAsking)
        d->mustAskAgain = true;
    else if (d->isKnown) {
        d->isRefreshDue = true;
        if (!d->askTimer.isActive() || d->askTimer.remainingTimeAsDuration() > d->nextRefresh.remaining())
            d->askTimer.start(d->nextRefresh.remaining());
    }
}

void ClusterWatch::setSuspect(const Endpoint &master, Suspicion suspicion)
{
    if (suspicion == Failed)
        d->failed.insert(master);
    else
        d->failed.remove(master);
    if (suspicion == None) {
        d->suspects.remove(master);
        return;
    }
    d->suspects.insert(master);
    if (d->isNeededAt(master) && !d->isAsking && d->isKnown
        && (!d->askTimer.isActive() || d->askTimer.remainingTimeAsDuration() > LongestSuspectInterval))
        d->askTimer.start(0);
}

void ClusterWatch::moved(int slot, const Endpoint &owner)
{
    if (d->map.ownerOf(slot) == owner)
        return;
    d->map.setOwner(slot, owner, qMax<qint64>(0, d->map.epochOf(slot)));
    if (!d->known.contains(owner))
        d->known.append(owner);
    refresh();
    d->postedChange.post();
}

bool ClusterWatch::isKnown() const
{
    return d->isKnown;
}

const SlotMap &ClusterWatch::map() const
{
    return d->map;
}

Failure ClusterWatch::failure() const
{
    return d->failure;
}

QString ClusterWatch::errorString() const
{
    return d->errorString;
}

} // namespace QtRedis
