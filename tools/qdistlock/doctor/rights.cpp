// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "doctor/rights.h"

#include "doctor/connection.h"
#include "doctor/report.h"
#include "lockview.h"

#include "redis/subscriber.h"

#include <QtCore/qcryptographichash.h>
#include <QtCore/qdatetime.h>
#include <QtCore/qelapsedtimer.h>
#include <QtCore/qrandom.h>
#include <QtCore/qstringlist.h>

#include <algorithm>

using namespace Qt::StringLiterals;

using QtRedis::Reply;
using QtRedis::Subscriber;
using std::chrono::milliseconds;

namespace Cli {

namespace {

const QString ChannelRight = u"&lock:client:*"_s;
const QByteArray Script = "return 1";
const QList<QByteArray> EvalCommand{"EVAL", Script, "0"};
const QList<QByteArray> EvalShaCommand{"EVALSHA", QCryptographicHash::hash(Script, QCryptographicHash::Sha1).toHex(),
                                       "0"};

/// A scratch lock: its keys, and a channel for messages about it.
struct Scratch
{
    explicit Scratch(const QString &prefix);

    QByteArray key;
    QByteArray queue;
    QByteArray fence;
    QByteArray channel;
    QString keyRight;  ///< "~lock:*"
    QString sideRight; ///< "~{lock:*}*", the same if the prefix has a {hash tag}
};

Scratch::Scratch(const QString &prefix)
{
    const QByteArray random = QByteArray::number(QRandomGenerator::system()->generate64(), 16);
    const QByteArray bytes = prefix.toUtf8();
    key = bytes + "doctor:" + random;
    const qsizetype open = bytes.indexOf('{');
    const bool isTagged = open >= 0 && bytes.indexOf('}', open + 1) > open + 1;
    const QByteArray side = isTagged ? key : '{' + key + '}';
    queue = side + ":queue";
    fence = side + ":fence";
    channel = "lock:client:doctor-" + random;
    keyRight = u'~' + prefix + u'*';
    sideRight = isTagged ? keyRight : u"~{"_s + prefix + u"*}*"_s;
}

/// One right, and a command that needs it.
struct Trial
{
    enum Use { Always, WithScripts, WithoutScripts };

    const char *right;
    /// Without it, locks do not work; otherwise something is less good.
    bool isEssential;
    QList<QByteArray> command;
    /// The right to the key that the command uses.
    QString keyRight = {};
    Use use = Always;
};

/// All rights of docs/acl.txt, and those that locks need without scripts, in an order in which the commands can be
/// executed. Nothing remains of them.
QList<Trial> allTrials(const Scratch &s)
{
    const QByteArray lifetime = "10000";
    const QByteArray later = QByteArray::number(QDateTime::currentMSecsSinceEpoch() + 10'000);
    return {
            {"+ping", false, {"PING"}},
            {"+client|setname", false, {"CLIENT", "SETNAME", "doctor"}},
            {"+client|id", false, {"CLIENT", "ID"}},
            {"+client|list", false, {"CLIENT", "LIST", "ID", "1"}},
            {"+client|kill", false, {"CLIENT", "KILL", "ID", "9223372036854775807"}}, // nobody
            {"+info", false, {"INFO", "clients"}},
            {"+eval", true, EvalCommand, {}, Trial::WithScripts},
            {"+evalsha", true, EvalShaCommand, {}, Trial::WithScripts},
            {"+scan", true, {"SCAN", "0", "MATCH", s.key, "COUNT", "1"}},
            {"+time", true, {"TIME"}},
            {"+set", true, {"SET", s.key, "doctor", "NX", "PX", lifetime}, s.keyRight},
            {"+get", true, {"GET", s.key}, s.keyRight},
            {"+mget", false, {"MGET", s.key}, s.keyRight},
            {"+pttl", true, {"PTTL", s.key}, s.keyRight},
            {"+pexpire", true, {"PEXPIRE", s.key, lifetime}, s.keyRight},
            {"+pexpireat", false, {"PEXPIREAT", s.key, later}, s.keyRight, Trial::WithScripts},
            {"+set", true, {"SET", s.fence, "0", "PX", lifetime, "GET"}, s.sideRight},
            {"+zadd", true, {"ZADD", s.queue, "NX", "1", "doctor"}, s.sideRight, Trial::WithScripts},
            {"+pexpire", true, {"PEXPIRE", s.queue, lifetime}, s.sideRight},
            {"+exists", false, {"EXISTS", s.queue}, s.sideRight, Trial::WithScripts},
            {"+zcard", false, {"ZCARD", s.queue}, s.sideRight},
            {"+zrange", true, {"ZRANGE", s.queue, "0", "0"}, s.sideRight},
            {"+zrank", false, {"ZRANK", s.queue, "doctor"}, s.sideRight, Trial::WithScripts},
            {"+zscore", false, {"ZSCORE", s.queue, "doctor"}, s.sideRight, Trial::WithScripts},
            {"+zrem", true, {"ZREM", s.queue, "doctor"}, s.sideRight, Trial::WithScripts},
            {"+watch", true, {"WATCH", s.key}, s.keyRight, Trial::WithoutScripts},
            {"+multi", true, {"MULTI"}, {}, Trial::WithoutScripts},
            {"+exec", true, {"EXEC"}, {}, Trial::WithoutScripts},
            {"+unwatch", false, {"UNWATCH"}, {}, Trial::WithoutScripts},
            {"+command|info", false, {"COMMAND", "INFO", "DELEX", "DELIFEQ"}, {}, Trial::WithoutScripts},
            {"+del", true, {"DEL", s.key}, s.keyRight},
            {"+del", true, {"DEL", s.queue}, s.sideRight},
            {"+del", true, {"DEL", s.fence}, s.sideRight},
            {"+publish", false, {"PUBLISH", s.channel, "doctor"}},
            {"+wait", false, {"WAIT", "0", "1"}},
            {"+role", false, {"ROLE"}},
            {"+subscribe", false, {"SUBSCRIBE", s.channel}},
    };
}

/// Those of the section Redis Cluster in docs/servers.md.
QList<Trial> clusterTrials(const Scratch &s)
{
    return {
            {"+cluster|slots", true, {"CLUSTER", "SLOTS"}},          {"+cluster|nodes", false, {"CLUSTER", "NODES"}},
            {"+cluster|myid", false, {"CLUSTER", "MYID"}},           {"+asking", true, {"ASKING"}},
            {"+spublish", false, {"SPUBLISH", s.channel, "doctor"}}, {"+ssubscribe", false, {"SSUBSCRIBE", s.channel}},
            {"+sunsubscribe", false, {"SUNSUBSCRIBE", s.channel}},
    };
}

/// Collects what the user may not do.
class Findings
{
public:
    /// \a refusal: the text of the server.
    void addRefusal(const Trial &trial, const QByteArray &refusal)
    {
        const bool isCommand = refusal.contains("to run the");
        if (!isCommand && refusal.contains("channel"))
            add(ChannelRight, false);
        else if (!isCommand && refusal.contains("key"))
            add(trial.keyRight, true);
        else
            add(QString::fromLatin1(trial.right), trial.isEssential);
    }
    void add(const QString &right, bool isEssential)
    {
        QStringList &list = isEssential ? m_essential : m_others;
        if (!right.isEmpty() && !m_essential.contains(right) && !m_others.contains(right))
            list.append(right);
    }
    void addOther(const QString &text)
    {
        if (!m_otherErrors.contains(text))
            m_otherErrors.append(text);
    }
    bool lacksEssential() const { return !m_essential.isEmpty(); }
    bool has(const QString &right) const { return m_essential.contains(right) || m_others.contains(right); }
    void report(const QString &how, DoctorReport *report) const;

private:
    QStringList m_essential;
    QStringList m_others;
    QStringList m_otherErrors;
};

/// \a error: why the server refuses to write.
QString adviceFor(const QString &error)
{
    if (error.startsWith(u"OOM"_s))
        return u"raise maxmemory (CONFIG SET maxmemory, and then CONFIG REWRITE), or remove keys of others"_s;
    if (error.startsWith(u"MISCONF"_s))
        return u"check the disk of the server and its log"_s;
    if (error.startsWith(u"NOREPLICAS"_s))
        return u"check its replicas, or lower min-replicas-to-write"_s;
    return u"give the URL of a master that accepts writes"_s;
}

void Findings::report(const QString &how, DoctorReport *report) const
{
    const QStringList missing = m_essential + m_others;
    const QString remedy =
            u"as an administrator: ACL SETUSER <user> %1, and then ACL SAVE (with an aclfile) or CONFIG REWRITE, because a restart undoes ACL SETUSER"_s
                    .arg(missing.join(u' '));
    const QJsonObject details{{u"missing"_s, QJsonArray::fromStringList(missing)}};
    if (!m_essential.isEmpty())
        report->add(DoctorReport::Failure, u"rights"_s, u"the user lacks %1 (%2)"_s.arg(missing.join(u' '), how),
                    remedy, details);
    else if (!m_others.isEmpty())
        report->add(DoctorReport::Warning, u"rights"_s,
                    u"the user lacks %1 (%2): locks work, but slower, not in turn, or not with minReplicas"_s.arg(
                            missing.join(u' '), how),
                    remedy, details);
    else
        report->add(DoctorReport::Ok, u"rights"_s, u"the user has every right that locks need (%1)"_s.arg(how));
    for (const QString &error : m_otherErrors)
        report->add(DoctorReport::Failure, u"write"_s, error, adviceFor(error));
}

/// The user's name, if the server has ACL DRYRUN and the user may use it.
QByteArray dryRunUser(DoctorConnection *connection)
{
    const auto user = connection->askIfAllowed({"ACL", "WHOAMI"});
    if (!user)
        return {};
    return connection->askIfAllowed({"ACL", "DRYRUN", user->text, "PING"}) ? user->text : QByteArray();
}

/// Redis repeats the arguments of a command that it does not know.
QByteArray withoutArguments(const QByteArray &error)
{
    const qsizetype end = error.indexOf(", with args");
    return end < 0 ? error : error.first(end);
}

bool isRefusedWrite(const Reply &reply)
{
    const QByteArray code = reply.errorCode();
    return code == "READONLY" || code == "OOM" || code == "MISCONF" || code == "NOREPLICAS";
}

void tryToWrite(DoctorConnection *connection, const Scratch &scratch, Findings *findings)
{
    const auto reply = connection->ask({"SET", scratch.key, "doctor", "NX", "PX", "1000"});
    if (reply && isRefusedWrite(*reply))
        findings->addOther(connection->server().shown(reply->text));
    else
        connection->ask({"DEL", scratch.key});
}

/// Whether a message arrives; and how fast.
void tryMessages(DoctorConnection *connection, const Scratch &scratch, Findings *findings, DoctorReport *report)
{
    Subscriber subscriber(connection->server());
    subscriber.setClientName("doctor-" + scratch.channel.sliced(scratch.channel.lastIndexOf('-') + 1));
    QString refusal;
    bool isEnded = false;
    bool isReceived = false;
    const auto setAndWake = [connection](bool *flag) {
        *flag = true;
        connection->wake();
    };
    QObject::connect(&subscriber, &Subscriber::subscribed, &subscriber, [&] { setAndWake(&isEnded); });
    QObject::connect(&subscriber, &Subscriber::refused, &subscriber, [&](const QByteArray &, const QString &error) {
        refusal = error;
        setAndWake(&isEnded);
    });
    QObject::connect(&subscriber, &Subscriber::messageReceived, &subscriber, [&] { setAndWake(&isReceived); });
    subscriber.subscribe(scratch.channel);
    connection->waitFor([&isEnded] { return isEnded; });
    if (connection->interruption() != 0)
        return;
    if (!refusal.isEmpty()) {
        findings->addRefusal({"+subscribe", false, {}}, refusal.toUtf8());
        return;
    }
    if (!isEnded) {
        report->add(DoctorReport::Warning, u"messages"_s,
                    u"a second connection could not be made: %1"_s.arg(subscriber.errorString()),
                    u"without it, waiters poll; check maxclients"_s);
        return;
    }
    if (findings->has(u"+publish"_s) || findings->has(ChannelRight))
        return;
    QElapsedTimer timer;
    timer.start();
    connection->ask({"PUBLISH", scratch.channel, "doctor"});
    if (connection->waitFor([&isReceived] { return isReceived; }))
        report->add(DoctorReport::Ok, u"messages"_s,
                    u"a message took %1 ms"_s.arg(double(timer.nsecsElapsed()) / 1e6, 0, 'f', 2));
    else if (connection->interruption() == 0)
        report->add(DoctorReport::Failure, u"messages"_s, u"a message was published and did not arrive"_s,
                    u"check for a proxy between here and the server that does not pass on messages"_s);
}

/// Makes the trials, by ACL DRYRUN if \a user is not empty, and otherwise by the commands.
void tryAll(DoctorConnection *connection, const QByteArray &user, const QList<Trial> &trials, Findings *findings)
{
    for (const Trial &trial : trials) {
        if (!user.isEmpty()) {
            const auto reply = connection->ask(QList<QByteArray>{"ACL", "DRYRUN", user} + trial.command);
            if (reply && reply->type == Reply::Bulk)
                findings->addRefusal(trial, reply->text);
        } else if (!trial.command.first().endsWith("SUBSCRIBE")) { // these would make this a connection for messages
            const auto reply = connection->ask(trial.command);
            if (reply && reply->errorCode() == "NOPERM")
                findings->addRefusal(trial, reply->text);
            else if (reply && isRefusedWrite(*reply))
                findings->addOther(connection->server().shown(reply->text));
        }
        if (connection->interruption() != 0)
            return;
    }
}

/// The error reply to a script; empty if the server executes it. nullopt: the server does not reply.
std::optional<QString> refusalOfScripts(DoctorConnection *connection)
{
    for (const QList<QByteArray> &command : {EvalCommand, EvalShaCommand}) {
        const auto reply = connection->ask(command);
        if (!reply)
            return std::nullopt;
        if (reply->errorCode() == "NOPERM" || reply->text.startsWith("ERR "))
            return connection->server().shown(withoutArguments(reply->text));
    }
    return QString();
}

/// Whether locks are kept without scripts, because the URL says so, or because the server refuses them.
bool isWithoutScripts(DoctorConnection *connection, const QByteArray &user, const QList<Trial> &all,
                      DoctorReport *report)
{
    const std::optional<QString> reply = refusalOfScripts(connection);
    if (!reply)
        return !connection->server().usesScripts;
    const QString refusal = *reply;
    const QString effect = u"locks are kept with WATCH, MULTI and EXEC; waiters poll, and are not served in turn"_s;
    if (!connection->server().usesScripts) {
        report->add(DoctorReport::Info, u"scripts"_s, u"not used, because the URL says scripts=off: "_s + effect,
                    refusal.isEmpty() ? u"the server executes scripts, so scripts=off is not needed"_s : QString());
        return true;
    }
    if (refusal.isEmpty()) {
        report->add(DoctorReport::Ok, u"scripts"_s, u"the server executes scripts"_s);
        return false;
    }
    Findings findings;
    QList<Trial> transactions = all;
    transactions.removeIf([](const Trial &trial) { return trial.use != Trial::WithoutScripts; });
    tryAll(connection, user, transactions, &findings);
    if (findings.lacksEssential())
        return false; // the check of the rights says what is missing
    report->add(DoctorReport::Warning, u"scripts"_s, u"the server refuses them (\"%1\"): %2"_s.arg(refusal, effect),
                u"allow EVAL and EVALSHA, or put scripts=off into the URL"_s);
    return true;
}

} // namespace

void checkRights(DoctorConnection *connection, const QString &prefix, ServerRole role, DoctorReport *report)
{
    const Scratch scratch(prefix);
    const QByteArray user = dryRunUser(connection);
    Findings findings;
    QList<Trial> all = allTrials(scratch);
    const bool isPlain = role == ServerRole::Alone && isWithoutScripts(connection, user, all, report);
    all.removeIf([other = isPlain ? Trial::WithScripts : Trial::WithoutScripts](const Trial &trial) {
        return trial.use == other;
    });
    if (role == ServerRole::OfCluster)
        all += clusterTrials(scratch);
    if (connection->server().database != 0)
        all.prepend({"+select", true, {"SELECT", QByteArray::number(connection->server().database)}});
    tryAll(connection, user, all, &findings);
    if (connection->interruption() != 0)
        return;
    if (!user.isEmpty()) // nothing was executed yet
        tryToWrite(connection, scratch, &findings);
    tryMessages(connection, scratch, &findings, report);
    findings.report(user.isEmpty() ? u"tried on a scratch name"_s : u"by ACL DRYRUN"_s, report);
}

} // namespace Cli
