// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "annotations/failurelog.h"

#include "base/logging.h"
#include "engine/lockid.h"

#include <QtCore/qmetaobject.h>
#include <QtCore/qtimer.h>

using namespace Qt::StringLiterals;

namespace QDistLock {

FailureLog *FailureLog::instance()
{
    static FailureLog *const log = new FailureLog; // never destroyed, since threads may end after static objects are
    return log;
}

void FailureLog::log(QtMsgType type, const LockedCall &call, const LockedCallInfo &info, bool dropped)
{
    QString name = call.displayName();
    if (!call.method)
        name += u": Lock "_s + Detail::quoted(info.lock);
    bool isFirst = false;
    bool isFirstOfAll = false;
    {
        const QMutexLocker locker(&m_mutex);
        isFirstOfAll = m_bursts.isEmpty();
        Burst &burst = m_bursts[{name, info.error}];
        isFirst = burst.failures++ == 0;
        burst.quiet = Deadline(Quiet);
    }
    const QString text = withFields(dropped ? info.errorString + u"; the call was dropped"_s : info.errorString,
                                    info.lock);
    if (!isFirst)
        qCDebug(lcLock, "%ls", qUtf16Printable(text));
    else if (type == QtWarningMsg)
        qCWarning(lcLock, "%ls", qUtf16Printable(text));
    else
        qCInfo(lcLock, "%ls", qUtf16Printable(text));
    if (isFirstOfAll)
        scheduleSummary();
}

void FailureLog::scheduleSummary()
{
    // In the thread of LockedCalls, since this one may run no event loop.
    if (LockedCalls *const calls = LockedCalls::instance()) {
        QMetaObject::invokeMethod(
                calls, [this, calls] { QTimer::singleShot(Quiet, calls, [this] { summarise(false); }); },
                Qt::QueuedConnection);
    }
}

void FailureLog::summarise(bool all)
{
    QStringList lines;
    bool isEmpty = true;
    {
        const QMutexLocker locker(&m_mutex);
        for (auto it = m_bursts.begin(); it != m_bursts.end();) {
            if (!all && !it->quiet.hasExpired() && !it->longest.hasExpired()) {
                ++it;
                continue;
            }
            if (it->failures > 1) {
                const char *const error = QMetaEnum::fromType<DistributedLock::Error>().valueToKey(it.key().second);
                // One arg(), since names of locks may contain "%2".
                lines.append(u"%1: %2 more calls failed with %3 after the one that was logged"_s.arg(
                        it.key().first, QString::number(it->failures - 1), QLatin1String(error)));
            }
            it = m_bursts.erase(it);
        }
        isEmpty = m_bursts.isEmpty();
    }
    for (const QString &line : std::as_const(lines))
        qCInfo(lcLock, "%ls", qUtf16Printable(line));
    if (!isEmpty)
        scheduleSummary();
}

} // namespace QDistLock
