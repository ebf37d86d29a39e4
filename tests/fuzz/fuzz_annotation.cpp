// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// The input is the options text of an annotation. What is understood can be written down and means the same
// again; what is wrong is told with a place that is in the text; a server's password is never told.

#include "fuzz.h"

#include "annotation.h"

#include <QtCore/qregularexpression.h>

using namespace QDistLock;

namespace {

const QString canary = QStringLiteral("c4n4ry");

void checkError(const QString &error, QStringView text)
{
    FUZZ_CHECK(!error.isEmpty());
    static const QRegularExpression pattern(QStringLiteral("^at position (-?\\d+): ."));
    if (const auto match = pattern.match(error); match.hasMatch()) {
        const qlonglong position = match.captured(1).toLongLong();
        FUZZ_CHECK2(position >= 1 && position <= text.size(), error.toUtf8());
    }
}

/// Every option, spelled out.
QString print(const AnnotationOptions &options)
{
    const LockOptions &lock = options.lock;
    const auto ms = [](std::chrono::milliseconds duration) { return QString::number(duration.count()) + QLatin1String("ms"); };
    const auto flag = [](bool on) { return on ? QStringLiteral("true") : QStringLiteral("false"); };
    const QString onBusy = options.onBusy == OnBusy::Wait ? QStringLiteral("wait")
            : options.onBusy == OnBusy::Skip              ? QStringLiteral("skip")
            : options.onBusy == OnBusy::Fail              ? QStringLiteral("fail")
                                                          : QStringLiteral("latest");
    QStringList entries;
    entries << QStringLiteral("lease=") + ms(lock.lease)
            << QStringLiteral("wait=") + (lock.wait == LockOptions::Forever ? QStringLiteral("forever") : ms(lock.wait))
            << QStringLiteral("retryInterval=") + ms(lock.retryInterval)
            << QStringLiteral("maxRetries=")
                    + (lock.maxRetries == LockOptions::UnlimitedRetries ? QStringLiteral("unlimited")
                                                                        : QString::number(lock.maxRetries))
            << QStringLiteral("autoRenew=") + flag(lock.autoRenew) << QStringLiteral("fair=") + flag(lock.fair)
            << QStringLiteral("minHold=") + ms(lock.minHold) << QStringLiteral("keyPrefix=") + lock.keyPrefix
            << QStringLiteral("minReplicas=") + QString::number(lock.minReplicas)
            << QStringLiteral("replicaTimeout=") + ms(lock.replicaTimeout)
            << QStringLiteral("repairMissingTtl=") + flag(lock.repairMissingTtl) << QStringLiteral("onBusy=") + onBusy
            << QStringLiteral("maxQueued=") + QString::number(options.maxQueued);
    if (!options.server.isEmpty())
        entries << QStringLiteral("server=") + options.server.toString(QUrl::FullyEncoded);
    if (options.condition)
        entries << QStringLiteral("condition=") + (options.conditionNegated ? QStringLiteral("!") : QString())
                        + options.condition->toString();
    return entries.join(QLatin1String("; "));
}

void check(const QString &text)
{
    QString error;
    const auto options = AnnotationOptions::parse(text, &error);
    if (!options)
        return checkError(error, text);
    FUZZ_CHECK(error.isEmpty());
    FUZZ_CHECK(options->lock.validationError().isEmpty());
    const QString printed = print(*options);
    const auto again = AnnotationOptions::parse(printed, &error);
    FUZZ_CHECK2(again, (printed + u'\n' + error).toUtf8());
    FUZZ_CHECK2(print(*again) == printed, (printed + u'\n' + print(*again)).toUtf8());
    FUZZ_CHECK(again->server == options->server && again->lock.keyPrefix == options->lock.keyPrefix);
    FUZZ_CHECK(again->onBusy == options->onBusy && again->conditionNegated == options->conditionNegated);
}

/// All that is told about the annotation of a method, wrong or not.
QString toldOf(const QString &key, const QString &options)
{
    QString error;
    const auto method = LockedMethod::make("Orders", "ship", {}, key, options, &error);
    FUZZ_CHECK(bool(method) == error.isEmpty());
    if (!method)
        return error;
    const auto requests = method->requests({}, &error);
    FUZZ_CHECK(requests.has_value() == error.isEmpty());
    if (!requests)
        return error;
    FUZZ_CHECK(requests->size() <= 1);
    return requests->isEmpty() ? QString() : requests->first().serverText();
}

/// The input around a server's password, which nobody percent-encoded.
void checkSecret(const QString &text)
{
    const qsizetype middle = text.indexOf(u'|');
    const QString before = middle < 0 ? text : text.left(middle);
    const QString after = middle < 0 ? QString() : text.mid(middle + 1);
    // A password with ";condition=" in it looks like two options, and a wrong condition is told by name.
    static const QRegularExpression condition(QStringLiteral(";\\s*condition\\s*=[^;]*$"));
    if (condition.match(before).hasMatch())
        return;
    for (const auto &scheme : {"redis", "rediss"}) {
        for (const auto &key : {"key", "{wrong"}) {
            const QString options = QStringLiteral("server=%1://u5er:").arg(QLatin1String(scheme)) + before + canary + after
                    + QStringLiteral("@h:6379/1");
            // After an '@' it may be the host instead, where another option follows: "redis://u:p@HOST; fair=false".
            QString error;
            if (before.contains(u'@') && after.contains(u';') && AnnotationOptions::parse(options, &error))
                continue;
            const QString told = toldOf(QLatin1String(key), options);
            FUZZ_CHECK2(!told.contains(canary, Qt::CaseInsensitive), (options + u'\n' + told).toUtf8());
        }
    }
}

} // namespace

int LLVMFuzzerInitialize(int *, char ***)
{
    qunsetenv("QDISTLOCK_PASSWORD");
    qunsetenv("QDISTLOCK_URL");
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const QString text = QString::fromUtf8(Fuzz::bytes(data, size));
    check(text);
    toldOf(QStringLiteral("key"), text);
    checkSecret(text);
    return 0;
}
