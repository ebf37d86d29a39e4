// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "redis/topology/sentinelwatch.h"

#include "base/backoff.h"
#include "redis/connection.h"
#include "redis/logging.h"
#include "redis/subscriber.h"

#include <QtCore/qpointer.h>
#include <QtCore/qset.h>
#include <QtCore/qtimer.h>
#include <QtNetwork/qhostaddress.h>
#include <QtNetwork/qhostinfo.h>

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

using namespace Qt::StringLiterals;

namespace QtRedis {

namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

/// For connecting to a Sentinel, and for each answer.
constexpr milliseconds AnswerTimeout = 500ms;
/// For connecting after a time-out: with TLS, it takes up to four round trips.
constexpr milliseconds SlowConnectTimeout = 2s;
/// After the first answer of a round, for those of the others, connecting included.
constexpr milliseconds MajorityTimeout = 500ms;
constexpr milliseconds FirstPause = 200ms; ///< before they are asked again; ± a half
constexpr milliseconds LongestPause = 1400ms;
constexpr int SlowPause = 5; ///< times as long, where somebody has to change a setting
constexpr milliseconds LongestDownAfter = 24h;
/// Bounds for what a Sentinel says about the others.
constexpr size_t MostSentinels = 32;
constexpr int MostOthers = 1000;

const QByteArray SwitchChannel = QByteArrayLiteral("+switch-master");

std::optional<Endpoint> parseEndpoint(const QByteArray &host, const QByteArray &port)
{
    bool ok = false;
    const quint16 number = port.toUShort(&ok);
    if (host.isEmpty() || !ok || number == 0)
        return std::nullopt;
    return Endpoint{QString::fromUtf8(host), number};
}

/// Its error, without the full stop.
QString clauseOf(const Connection &connection)
{
    const QString text = connection.errorString();
    return text.endsWith(u'.') ? text.chopped(1) : text;
}

/// The names and values that a Sentinel returns for one server.
using Fields = QHash<QByteArray, QByteArray>;

Fields toFields(const Reply &reply)
{
    Fields fields;
    for (qsizetype i = 0; i + 1 < reply.elements.size(); i += 2)
        fields.insert(reply.elements[i].text, reply.elements[i + 1].text);
    return fields;
}

} // namespace

class SentinelWatch::Private
{
public:
    /// What one Sentinel said.
    struct Answer
    {
        enum Kind : quint8 { Pending, Named, Failed };
        Kind kind = Pending;
        Master master;                   ///< Named
        Failure failure = Failure::None; ///< Failed
        QString problem;                 ///< Failed: a clause
    };
    using Handler = std::function<void(const Answer &)>;

    struct Sentinel
    {
        explicit Sentinel(const ServerUrl &server)
            : id(server.endpoint().toString().toUtf8())
            , connection(server)
        {
        }
        QByteArray id;            ///< its run id; its address until that is known, and if it has none
        bool isConfigured = true; ///< in the URL; these come first
        int others = 0;
        Answer answer;                                 ///< the last one; Pending: none in the present round yet
        QList<std::pair<Endpoint, QByteArray>> listed; ///< other Sentinels, with their ids
        bool isAsked = false;                          ///< an answer is outstanding
        bool isAskedAgain = false;                     ///< to be asked once more after it
        std::vector<Handler> waiting;                  ///< to be asked when the connection is Ready, or has failed
        Connection connection;
        std::unique_ptr<Subscriber> subscriber; ///< once it has named a master
    };

    /// One confirm().
    struct Question
    {
        Master master;
        SentinelVotes answers; ///< those of `sentinels`, in this order
        Verdict verdict;
    };

    Private(SentinelWatch *watch, const ServerUrl &serviceUrl);

    SentinelVote voteOf(const Sentinel &sentinel) const;
    SentinelVotes votes() const;
    void add(const Endpoint &endpoint);
    /// True if there was a new one, or one at another address.
    bool addListed();
    bool follow(const Endpoint &endpoint, const QByteArray &id);
    void startRound();
    void askAll();
    void ask(Sentinel *sentinel);
    void requestMaster(Sentinel *sentinel, Handler handler);
    void requestWaiting(Sentinel *sentinel);
    void masterReplied(Sentinel *sentinel, const CommandResult &result, const Handler &handler);
    void requestAddress(Sentinel *sentinel, const Master &master, const Handler &handler);
    Answer failedAnswer(const Sentinel &sentinel, const CommandResult &result) const;
    void listReplied(Sentinel *sentinel, const CommandResult &result);
    void answered(Sentinel *sentinel, const Answer &answer);
    void lookUpNames();
    void nameLookedUp(const QString &host, const QList<QHostAddress> &all);
    Master withAddresses(Master named) const;
    void checkRound();
    void decide();
    void failToAgree(const SentinelVotes &said);
    void adopt(const Master &found);
    void listen(Sentinel *sentinel);
    void switchReported(const QByteArray &payload);
    void fail(Failure why, const QString &clause);
    void failWithoutMaster();
    void askLater(bool slowly);
    void checkQuestion(const std::shared_ptr<Question> &question);
    QString problemOf(const Question &question) const;
    void endQuestions(const QString &problem);

    /// Of host names, where others name an address; for each round again.
    QHash<QString, QStringList> addresses;
    QSet<QString> lookedUp;
    int lookups = 0; ///< that have not ended

    bool needsRound() const { return !master && !isAsking; }

    SentinelWatch *const q;
    const ServerUrl service;
    QByteArray clientName;
    std::function<bool()> isNeeded;
    std::vector<std::unique_ptr<Sentinel>> sentinels;

    std::optional<Master> master;
    bool isAsking = false;                      ///< a round has begun
    bool isDisputed = false;                    ///< the last round failed although masters were named
    bool isUnusable = false;                    ///< the master, by askAgain() since the last round
    bool isOverdue = false;                     ///< a round, which nobody needed when it was due
    QDistLock::BackOff pauses{FirstPause, 0.5}; ///< since the master was confirmed last
    Failure failure = Failure::None;
    QString errorString;
    QTimer majorityTimer;
    QTimer askTimer;
    QList<std::shared_ptr<Question>> questions;
};

SentinelWatch::Private::Private(SentinelWatch *watch, const ServerUrl &serviceUrl)
    : q(watch)
    , service(serviceUrl)
{
    majorityTimer.setSingleShot(true);
    majorityTimer.setInterval(MajorityTimeout);
    askTimer.setSingleShot(true);
    QObject::connect(&majorityTimer, &QTimer::timeout, q, [this] { decide(); });
    QObject::connect(&askTimer, &QTimer::timeout, q, [this] {
        if (isNeeded && isNeeded())
            startRound();
        else
            isOverdue = true;
    });
    for (const Endpoint &endpoint : serviceUrl.sentinels)
        add(endpoint);
}

SentinelVote SentinelWatch::Private::voteOf(const Sentinel &sentinel) const
{
    SentinelVote vote;
    vote.id = sentinel.id;
    vote.isConfigured = sentinel.isConfigured;
    vote.isPending = sentinel.answer.kind == Answer::Pending;
    vote.known = sentinel.others + 1;
    if (sentinel.answer.kind == Answer::Named)
        vote.named = withAddresses(sentinel.answer.master);
    return vote;
}

SentinelVotes SentinelWatch::Private::votes() const
{
    SentinelVotes all;
    for (const auto &sentinel : sentinels)
        all.votes.push_back(voteOf(*sentinel));
    return all;
}

void SentinelWatch::Private::add(const Endpoint &endpoint)
{
    Sentinel *const sentinel = sentinels.emplace_back(std::make_unique<Sentinel>(service.atSentinel(endpoint))).get();
    Connection *const connection = &sentinel->connection;
    connection->setConnectTimeout(AnswerTimeout);
    connection->setClientName(clientName);
    connection->setNeeded([this] { return isNeeded && isNeeded(); });
    QObject::connect(connection, &Connection::stateChanged, q, [this, sentinel] {
        if (sentinel->connection.state() != Connection::Ready)
            return;
        if (sentinel->subscriber) // may have given up while nothing needed it
            sentinel->subscriber->subscribe(SwitchChannel);
        ask(sentinel);
        requestWaiting(sentinel);
    });
    QObject::connect(connection, &Connection::failed, q, [this, sentinel] {
        if (sentinel->connection.failure() == Failure::Timeout)
            sentinel->connection.setConnectTimeout(SlowConnectTimeout);
        requestWaiting(sentinel);
        answered(sentinel, {Answer::Failed, {}, sentinel->connection.failure(), clauseOf(sentinel->connection)});
    });
}

// A single Sentinel could list any number. They may list one of the URL under another host name: once it has replied,
// its id shows that both are the same.
bool SentinelWatch::Private::addListed()
{
    QHash<std::pair<Endpoint, QByteArray>, qsizetype> listings;
    for (const auto &sentinel : sentinels) {
        if (!sentinel->isConfigured)
            continue;
        for (const auto &entry : std::as_const(sentinel->listed))
            ++listings[entry];
    }
    const size_t before = sentinels.size();
    const qsizetype majority = votes().configuredMajority();
    QHash<QByteArray, int> addresses; // of an id
    for (auto it = listings.cbegin(); it != listings.cend(); ++it)
        addresses[it.key().second] += it.value() < majority ? 0 : 1;
    bool hasMoved = false;
    for (auto it = listings.cbegin(); it != listings.cend(); ++it) {
        const auto &[endpoint, id] = it.key();
        const bool isKnown = std::any_of(sentinels.begin(), sentinels.end(), [&key = it.key()](const auto &known) {
            return known->id == key.second || known->connection.server().endpoint() == key.first;
        });
        if (isKnown && it.value() >= majority && addresses.value(id) == 1)
            hasMoved |= follow(endpoint, id);
        if (isKnown || it.value() < majority || sentinels.size() >= MostSentinels)
            continue;
        add(endpoint);
        sentinels.back()->id = id;
        sentinels.back()->isConfigured = false;
        ask(sentinels.back().get());
    }
    return hasMoved || sentinels.size() > before;
}

// A Sentinel that was started again at another address, with its id. True if it is reached for there now.
bool SentinelWatch::Private::follow(const Endpoint &endpoint, const QByteArray &id)
{
    Sentinel *moved = nullptr;
    for (const auto &sentinel : sentinels) {
        if (sentinel->connection.server().endpoint() == endpoint)
            return false; // that address is asked for its id already
        if (sentinel->id != id)
            continue;
        if (sentinel->isConfigured || sentinel->connection.state() == Connection::Ready)
            return false;
        moved = sentinel.get();
    }
    if (!moved)
        return false;
    const ServerUrl server = service.atSentinel(endpoint);
    const QString reason = u"the Sentinel has this address now"_s;
    moved->answer = {};
    moved->connection.setServer(server, reason);
    if (moved->subscriber)
        moved->subscriber->setServer(server, reason);
    ask(moved);
    return true;
}

// Asking

void SentinelWatch::Private::startRound()
{
    askTimer.stop();
    majorityTimer.stop();
    isAsking = true;
    isOverdue = false;
    lookedUp.clear();
    for (const auto &sentinel : sentinels)
        sentinel->answer = {};
    askAll();
}

void SentinelWatch::Private::askAll()
{
    for (const auto &sentinel : sentinels)
        ask(sentinel.get());
}

void SentinelWatch::Private::ask(Sentinel *sentinel)
{
    Connection &connection = sentinel->connection;
    connection.open();
    if (connection.state() != Connection::Ready)
        return; // stateChanged() continues
    // Once more is enough, however many reasons to ask it there were meanwhile.
    if (std::exchange(sentinel->isAsked, true)) {
        sentinel->isAskedAgain = true;
        return;
    }
    connection.send({"SENTINEL", "MYID"}, AnswerTimeout, [sentinel](const CommandResult &result) {
        if (result.outcome == CommandResult::Replied && result.reply.type == Reply::Bulk)
            sentinel->id = result.reply.text;
    });
    connection.send({"SENTINEL", "SENTINELS", service.service.toUtf8()}, AnswerTimeout,
                    [this, sentinel](const CommandResult &result) { listReplied(sentinel, result); });
    requestMaster(sentinel, [this, sentinel](const Answer &answer) {
        sentinel->isAsked = false;
        if (std::exchange(sentinel->isAskedAgain, false) && sentinel->connection.state() == Connection::Ready)
            ask(sentinel);
        answered(sentinel, answer);
    });
}

void SentinelWatch::Private::requestMaster(Sentinel *sentinel, Handler handler)
{
    if (sentinel->connection.isComing()) { // perhaps again, after it was closed while it was idle
        sentinel->waiting.push_back(std::move(handler));
        return;
    }
    sentinel->connection.send({"SENTINEL", "MASTER", service.service.toUtf8()}, AnswerTimeout,
                              [this, sentinel, handler = std::move(handler)](const CommandResult &result) {
                                  masterReplied(sentinel, result, handler);
                              });
}

void SentinelWatch::Private::requestWaiting(Sentinel *sentinel)
{
    for (Handler &handler : std::exchange(sentinel->waiting, {}))
        requestMaster(sentinel, std::move(handler));
}

void SentinelWatch::Private::masterReplied(Sentinel *sentinel, const CommandResult &result, const Handler &handler)
{
    if (result.outcome != CommandResult::Replied || result.reply.isError()) {
        handler(failedAnswer(*sentinel, result));
        return;
    }
    const Fields fields = toFields(result.reply);
    const auto endpoint = parseEndpoint(fields.value("ip"), fields.value("port"));
    bool hasEpoch = false;
    const qint64 epoch = fields.value("config-epoch").toLongLong(&hasEpoch);
    if (!endpoint || !hasEpoch || epoch < 0) {
        const QString name = sentinel->connection.server().toDisplayString();
        handler({Answer::Failed, {}, Failure::Protocol, u"%1 sent an unexpected reply to SENTINEL MASTER"_s.arg(name)});
        return;
    }
    sentinel->others = std::clamp(fields.value("num-other-sentinels").toInt(), 0, MostOthers);
    const milliseconds downAfter(fields.value("down-after-milliseconds").toInt());
    const Master named{*endpoint, epoch, std::clamp<milliseconds>(downAfter, 0ms, LongestDownAfter)};
    // The Sentinel that leads a fail-over has the new epoch before it shows the new address here.
    if (fields.value("flags").split(',').contains("failover_in_progress"))
        requestAddress(sentinel, named, handler);
    else
        handler({Answer::Named, named, Failure::None, {}});
}

// This address is never older than the epoch that was read before it.
void SentinelWatch::Private::requestAddress(Sentinel *sentinel, const Master &named, const Handler &handler)
{
    sentinel->connection.send({"SENTINEL", "GET-MASTER-ADDR-BY-NAME", service.service.toUtf8()}, AnswerTimeout,
                              [this, sentinel, named, handler](const CommandResult &result) {
                                  const QList<Reply> &parts = result.reply.elements;
                                  const auto endpoint = parts.size() == 2 ? parseEndpoint(parts[0].text, parts[1].text)
                                                                          : std::nullopt;
                                  if (endpoint)
                                      handler({Answer::Named, {*endpoint, named.epoch, named.downAfter}, {}, {}});
                                  else
                                      handler(failedAnswer(*sentinel, result));
                              });
}

SentinelWatch::Private::Answer SentinelWatch::Private::failedAnswer(const Sentinel &sentinel,
                                                                    const CommandResult &result) const
{
    const auto failed = [](Failure why, const QString &problem) { return Answer{Answer::Failed, {}, why, problem}; };
    const ServerUrl &server = sentinel.connection.server();
    const QString name = server.endpoint().toString();
    if (result.failure == Failure::Protocol && sentinel.connection.failure() == Failure::Protocol)
        return failed(Failure::Protocol, clauseOf(sentinel.connection));
    if (result.outcome != CommandResult::Replied)
        return failed(result.failure, u"the Sentinel %1 did not answer"_s.arg(name));
    const QString said = server.shown(result.reply.text);
    if (result.reply.text.contains("No such master")) {
        return failed(
                Failure::Service,
                u"the Sentinel %1 knows no service \"%2\"; check the name in the URL (SENTINEL MASTERS lists the names it knows)"_s
                        .arg(name, service.service));
    }
    if (result.reply.text.contains("unknown command")) {
        return failed(
                Failure::Service,
                u"%1 is a Redis server and no Sentinel; give the addresses of the Sentinels, whose usual port is 26379, or use redis:// for this server alone"_s
                        .arg(name));
    }
    if (result.reply.errorCode() == "NOPERM") {
        return failed(
                Failure::Permission,
                u"the ACL of the Sentinel %1 forbids to ask for the master (\"%2\"); allow the commands listed in docs/servers.md"_s
                        .arg(name, said));
    }
    return failed(Failure::Server, u"the Sentinel %1 answered with \"%2\""_s.arg(name, said));
}

void SentinelWatch::Private::listReplied(Sentinel *sentinel, const CommandResult &result)
{
    if (result.outcome != CommandResult::Replied || result.reply.type != Reply::Array)
        return;
    sentinel->listed.clear();
    for (const Reply &entry : result.reply.elements) {
        const Fields fields = toFields(entry);
        const QByteArray id = fields.value("runid");
        const auto endpoint = parseEndpoint(fields.value("ip"), fields.value("port"));
        const std::pair named(endpoint.value_or(Endpoint()), id);
        if (endpoint && !id.isEmpty() && !sentinel->listed.contains(named)
            && sentinel->listed.size() < qsizetype(MostSentinels))
            sentinel->listed.append(named);
    }
}

// Deciding

void SentinelWatch::Private::answered(Sentinel *sentinel, const Answer &answer)
{
    sentinel->answer = answer;
    if (answer.kind == Answer::Named) {
        listen(sentinel);
        if (needsRound() && !isDisputed) { // its answer is the first one of the new round
            startRound();
            sentinel->answer = answer;
        }
    }
    checkRound();
}

// Some Sentinels may announce host names and others addresses. A single one may lie: that both are the same server is
// believed only if the name has no other address.
void SentinelWatch::Private::lookUpNames()
{
    for (const auto &sentinel : sentinels) {
        const Master &named = sentinel->answer.master;
        const bool isSpeltTwice = sentinel->answer.kind == Answer::Named && QHostAddress(named.endpoint.host).isNull()
                && std::any_of(sentinels.begin(), sentinels.end(), [&named](const auto &other) {
                                      const Master &master = other->answer.master;
                                      return other->answer.kind == Answer::Named && master.epoch == named.epoch
                                              && master.endpoint.port == named.endpoint.port
                                              && !QHostAddress(master.endpoint.host).isNull();
                                  });
        const QString host = named.endpoint.host;
        if (!isSpeltTwice || lookedUp.contains(host))
            continue;
        lookedUp.insert(host);
        ++lookups;
        QHostInfo::lookupHost(host, q, [this, host](const QHostInfo &info) { nameLookedUp(host, info.addresses()); });
    }
}

void SentinelWatch::Private::nameLookedUp(const QString &host, const QList<QHostAddress> &all)
{
    --lookups;
    QStringList texts;
    for (const QHostAddress &address : all) {
        const auto isAlike = [&address](const QHostAddress &other) { return other.protocol() == address.protocol(); };
        if (std::count_if(all.begin(), all.end(), isAlike) == 1)
            texts.append(address.toString());
    }
    addresses.insert(host, texts);
    if (master)
        master = withAddresses(*master);
    checkRound();
}

SentinelWatch::Master SentinelWatch::Private::withAddresses(Master named) const
{
    named.addresses = addresses.value(named.endpoint.host);
    return named;
}

void SentinelWatch::Private::checkRound()
{
    lookUpNames();
    bool isComplete = true;
    bool isNamed = false;
    for (const auto &sentinel : sentinels) {
        isComplete &= sentinel->answer.kind != Answer::Pending;
        isNamed |= sentinel->answer.kind == Answer::Named;
    }
    if ((isComplete && addListed()) || (isNamed && lookups > 0))
        isComplete = false;
    const SentinelVotes said = votes();
    const auto agreed = said.agreed();
    // A round continues until what it finds would be confirmed, too, if it can be.
    if (agreed && (isAsking ? said.isConfirmed(*agreed) : !master || !master->isSame(*agreed)))
        adopt(*agreed);
    else if (isAsking && isComplete)
        decide();
    else if (isAsking && isNamed && !majorityTimer.isActive())
        majorityTimer.start();
}

void SentinelWatch::Private::decide()
{
    isAsking = false;
    majorityTimer.stop();
    SentinelVotes said = votes();
    for (SentinelVote &vote : said.votes)
        vote.isPending = false; // it is silent
    auto found = said.agreed();
    if (!found) {
        found = said.unopposed();
        // Not on the word of a minority while the present one works, and never back to one that was replaced.
        const bool isCredible = found
                && (!master || master->isSame(*found) || (isUnusable && found->epoch > master->epoch));
        if (!isCredible)
            found.reset();
    }
    isUnusable = false;
    if (found)
        adopt(*found);
    else
        failToAgree(said);
}

void SentinelWatch::Private::adopt(const Master &found)
{
    isAsking = isDisputed = isUnusable = false;
    majorityTimer.stop();
    askTimer.stop();
    if (votes().isConfirmed(found))
        pauses.reset();
    failure = Failure::None;
    errorString.clear();
    const bool isSame = master && master->isSame(found);
    master = found;
    if (isSame)
        return;
    qCDebug(lcRedis, "%s: the master is %s, config epoch %lld", qUtf8Printable(service.toDisplayString()),
            qUtf8Printable(found.endpoint.toString()), static_cast<long long>(found.epoch));
    endQuestions(u"the Sentinels name another master by now"_s);
    Q_EMIT q->masterChanged();
}

void SentinelWatch::Private::listen(Sentinel *sentinel)
{
    if (sentinel->subscriber)
        return;
    sentinel->subscriber = std::make_unique<Subscriber>(sentinel->connection.server());
    Subscriber *const subscriber = sentinel->subscriber.get();
    subscriber->setClientName(clientName);
    subscriber->setNeeded([this] { return isNeeded && isNeeded(); });
    // It may have switched before it confirmed the subscription.
    QObject::connect(subscriber, &Subscriber::subscribed, q, [this, sentinel] { ask(sentinel); });
    QObject::connect(subscriber, &Subscriber::messageReceived, q,
                     [this](const QByteArray &, const QByteArray &payload) { switchReported(payload); });
    subscriber->subscribe(SwitchChannel);
}

/// \a payload: service, old host, old port, new host, new port. It does not have the epoch, and a single Sentinel is
/// not believed. But each Sentinel reports its own switch, and the leader of the fail-over has named the new master
/// since before the first of them: asked now, they agree at the first moment at which they can.
void SentinelWatch::Private::switchReported(const QByteArray &payload)
{
    if (payload.split(' ').first() != service.service.toUtf8())
        return;
    if (!isAsking)
        startRound();
    else
        askAll();
}

// Failing

void SentinelWatch::Private::failToAgree(const SentinelVotes &said)
{
    QStringList names;
    for (const SentinelVote &vote : said.votes) {
        if (!vote.named)
            continue;
        const QString name = u"%1 (config epoch %2)"_s.arg(vote.named->endpoint.toString()).arg(vote.named->epoch);
        if (!names.contains(name))
            names.append(name);
    }
    isDisputed = !names.isEmpty();
    if (!isDisputed) {
        failWithoutMaster();
        return;
    }
    fail(Failure::Server,
         u"its Sentinels disagree, some name %1 as the master; make sure that all of them belong to one service, and "
         "that they reach each other; it goes on by itself once a majority of those in the URL names the same one"_s
                 .arg(names.join(u" and others "_s)));
}

void SentinelWatch::Private::failWithoutMaster()
{
    const Answer *telling = nullptr; // somebody has to change a setting
    bool isPassing = false;
    for (const auto &sentinel : sentinels) {
        const Answer &answer = sentinel->answer;
        const bool permanent = isPermanent(answer.failure);
        isPassing |= !permanent;
        if (!telling || (permanent && !isPermanent(telling->failure)))
            telling = &answer;
    }
    if (isPermanent(telling->failure))
        fail(isPassing ? Failure::Server : telling->failure, telling->problem);
    else
        fail(telling->failure,
             u"none of its %1 Sentinels can be asked for the master; check their addresses, and whether they run (%2)"_s
                     .arg(votes().total())
                     .arg(telling->problem));
}

void SentinelWatch::Private::fail(Failure why, const QString &clause)
{
    askLater(isPermanent(why));
    if (master)
        return; // the connection to it reports what is wrong with it
    failure = why;
    errorString = u"%1: %2."_s.arg(service.toDisplayString(), clause);
    qCDebug(lcRedis, "%s", qUtf8Printable(errorString));
    Q_EMIT q->failed();
}

void SentinelWatch::Private::askLater(bool slowly)
{
    askTimer.start(std::chrono::round<milliseconds>(pauses.next(LongestPause) * (slowly ? SlowPause : 1)));
}

// Confirming

void SentinelWatch::Private::checkQuestion(const std::shared_ptr<Question> &question)
{
    if (!questions.contains(question))
        return; // it has ended
    const auto &votes = question->answers.votes;
    const bool isConfirmed = question->answers.isConfirmed(question->master);
    if (!isConfirmed && std::any_of(votes.begin(), votes.end(), [](const auto &vote) { return vote.isPending; }))
        return;
    questions.removeOne(question);
    // Perhaps a connection has given up while nothing needed it, or Sentinels have other addresses by now.
    if (isConfirmed)
        pauses.reset();
    else if (!isAsking && !askTimer.isActive())
        askLater(true);
    question->verdict(isConfirmed ? QString() : problemOf(*question));
}

QString SentinelWatch::Private::problemOf(const Question &question) const
{
    QSet<QByteArray> answering;
    for (const SentinelVote &vote : question.answers.votes) {
        if (vote.named)
            answering.insert(vote.id);
    }
    const qsizetype disagreeing = answering.size() - question.answers.namers(question.master).size();
    const qsizetype total = std::max(question.answers.total(), answering.size());
    const qsizetype silent = total - answering.size();
    const QString advice =
            u"so the server at %1 may be cut off from the others, and no longer be the master; look whether the Sentinels run and can be reached"_s
                    .arg(question.master.endpoint.toString());
    return disagreeing > 0 ? u"%1 of %2 Sentinels are silent and %3 name another master, %4"_s.arg(silent)
                                     .arg(total)
                                     .arg(disagreeing)
                                     .arg(advice)
                           : u"%1 of %2 Sentinels are silent, %3"_s.arg(silent).arg(total).arg(advice);
}

void SentinelWatch::Private::endQuestions(const QString &problem)
{
    const auto ended = std::exchange(questions, {});
    if (ended.isEmpty())
        return;
    QMetaObject::invokeMethod(
            q,
            [ended, problem, guard = QPointer<SentinelWatch>(q)] {
                for (const auto &question : ended) {
                    if (guard)
                        question->verdict(problem);
                }
            },
            Qt::QueuedConnection);
}

// The public class

SentinelWatch::SentinelWatch(const ServerUrl &service, QObject *parent)
    : QObject(parent)
    , d(std::make_unique<Private>(this, service))
{
}

SentinelWatch::~SentinelWatch() = default;

void SentinelWatch::setClientName(const QByteArray &name)
{
    d->clientName = name;
    for (const auto &sentinel : d->sentinels)
        sentinel->connection.setClientName(name);
}

void SentinelWatch::setNeeded(std::function<bool()> isNeeded)
{
    d->isNeeded = std::move(isNeeded);
}

void SentinelWatch::open()
{
    // Those that were closed while nobody needed them: each is asked when it is Ready, for what it has announced since.
    for (const auto &sentinel : d->sentinels) {
        if (sentinel->connection.failure() == Failure::None)
            sentinel->connection.open();
        if (sentinel->subscriber)
            sentinel->subscriber->resume();
    }
    if (d->needsRound() || (d->isOverdue && !d->isAsking))
        d->startRound();
}

void SentinelWatch::askAgain()
{
    d->isUnusable = true;
    const bool isSoon = d->askTimer.isActive() && d->askTimer.remainingTimeAsDuration() <= LongestPause * 3 / 2;
    if (!d->isAsking && !isSoon)
        d->askLater(false);
}

const std::optional<SentinelWatch::Master> &SentinelWatch::master() const
{
    return d->master;
}

Failure SentinelWatch::failure() const
{
    return d->failure;
}

QString SentinelWatch::errorString() const
{
    return d->errorString;
}

void SentinelWatch::confirm(Verdict verdict)
{
    const auto question = std::make_shared<Private::Question>();
    question->verdict = std::move(verdict);
    d->questions.append(question);
    if (!d->master) {
        d->endQuestions(u"the master is not known at present"_s);
        return;
    }
    question->master = *d->master;
    question->answers = d->votes();
    for (SentinelVote &vote : question->answers.votes) {
        vote.named.reset();
        vote.isPending = true;
    }
    for (size_t i = 0; i < d->sentinels.size(); ++i) {
        Private::Sentinel *const sentinel = d->sentinels[i].get();
        d->requestMaster(sentinel, [this, sentinel, question, i](const Private::Answer &answer) {
            const QPointer<SentinelWatch> guard(this);
            SentinelVote &vote = question->answers.votes[i];
            vote.isPending = false;
            if (answer.kind == Private::Answer::Named) {
                d->answered(sentinel, answer);
                if (!guard)
                    return;
                vote = d->voteOf(*sentinel);
                vote.named = d->withAddresses(answer.master);
            }
            d->checkQuestion(question);
        });
    }
}

} // namespace QtRedis
