// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// The input is the options text of an annotation. Options that were parsed give the same options when written out and
// parsed again; the position of an error lies within the text; no error contains a server's password.

#include "fuzz.h"

#include "annotations/lockedmethod.h"

#include <QtCore/qregularexpression.h>

using namespace Qt::StringLiterals;

using namespace QDistLock;

namespace {

const QString canary = u"c4n4ry"_s;

void checkError(const QString &error, QStringView text)
{
    FUZZ_CHECK(!error.isEmpty());
    static const QRegularExpression pattern(u"^at position (-?\\d+): ."_s);
    if (const auto match = pattern.match(error); match.hasMatch()) {
        const qlonglong position = match.captured(1).toLongLong();
        FUZZ_CHECK2(position >= 1 && position <= text.size(), error.toUtf8());
    }
}

/// A text that sets every option to the value in \a options.
QString print(const AnnotationOptions &options)
{
    const LockOptions &lock = options.lock;
    const auto ms = [](std::chrono::milliseconds duration) {
        return QString::number(duration.count()) + QLatin1String("ms");
    };
    const auto flag = [](bool on) { return on ? u"true"_s : u"false"_s; };
    const QString onBusy = options.onBusy == OnBusy::Wait ? u"wait"_s
            : options.onBusy == OnBusy::Skip              ? u"skip"_s
            : options.onBusy == OnBusy::Fail              ? u"fail"_s
                                                          : u"latest"_s;
    QStringList entries;
    entries << u"lease="_s + ms(lock.lease)
            << u"wait="_s + (lock.wait == LockOptions::Forever ? u"forever"_s : ms(lock.wait))
            << u"retryInterval="_s + ms(lock.retryInterval)
            << u"maxRetries="_s
                    + (lock.maxRetries == LockOptions::UnlimitedRetries ? u"unlimited"_s
                                                                        : QString::number(lock.maxRetries))
            << u"mode="_s + (lock.mode == LockOptions::Shared ? u"read"_s : u"write"_s)
            << u"autoRenew="_s + flag(lock.autoRenew) << u"fair="_s + flag(lock.fair)
            << u"minHold="_s + ms(lock.minHold) << u"keyPrefix="_s + options.keyPrefix
            << u"minReplicas="_s + QString::number(lock.minReplicas) << u"replicaTimeout="_s + ms(lock.replicaTimeout)
            << u"repairMissingTtl="_s + flag(lock.repairMissingTtl) << u"onBusy="_s + onBusy
            << u"maxQueued="_s + QString::number(options.maxQueued);
    if (lock.permits != 0) {
        entries << u"permits="_s
                        + (lock.permits == LockOptions::ServerPermits ? u"server"_s : QString::number(lock.permits))
                << u"take="_s + QString::number(lock.take);
    }
    if (!lock.label.isEmpty())
        entries << u"label="_s + lock.label;
    if (!options.server.isEmpty())
        entries << u"server="_s + options.server.toString(QUrl::FullyEncoded);
    if (options.condition)
        entries << u"condition="_s + (options.conditionNegated ? u"!"_s : QString()) + options.condition->toString();
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
    FUZZ_CHECK(again->server == options->server && again->keyPrefix == options->keyPrefix);
    FUZZ_CHECK(again->onBusy == options->onBusy && again->conditionNegated == options->conditionNegated);
}

/// All messages about the annotation of a method.
QString messagesOf(const QString &key, const QString &options)
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

/// Puts a server's password that is not percent-encoded into the input.
void checkSecret(const QString &text)
{
    const qsizetype middle = text.indexOf(u'|');
    const QString before = middle < 0 ? text : text.left(middle);
    const QString after = middle < 0 ? QString() : text.mid(middle + 1);
    // A password with ";condition=" in it looks like two options, and the error for a wrong condition quotes it.
    static const QRegularExpression condition(u";\\s*condition\\s*=[^;]*$"_s);
    if (condition.match(before).hasMatch())
        return;
    for (const auto &scheme : {"redis", "rediss"}) {
        for (const auto &key : {"key", "{wrong"}) {
            const QString options = u"server=%1://u5er:"_s.arg(QLatin1String(scheme)) + before + canary + after
                    + u"@h:6379/1"_s;
            // After an '@' the text may be the host, if another option follows: "redis://u:p@HOST; fair=false".
            QString error;
            if (before.contains(u'@') && after.contains(u';') && AnnotationOptions::parse(options, &error))
                continue;
            const QString messages = messagesOf(QLatin1String(key), options);
            FUZZ_CHECK2(!messages.contains(canary, Qt::CaseInsensitive), (options + u'\n' + messages).toUtf8());
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
    messagesOf(u"key"_s, text);
    checkSecret(text);
    return 0;
}
