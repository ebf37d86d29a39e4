// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "annotations/waitingcall.h"

#include "annotations/failurelog.h"
#include "annotations/threadcalls.h"
#include "base/logging.h"

#include <QtCore/qcoreapplication.h>

#include <algorithm>

using namespace Qt::StringLiterals;

using namespace std::chrono_literals;
using std::chrono::milliseconds;

namespace QDistLock {

QString describeLock(const LockRequest &request, const QString &text)
{
    return u"Lock %1 on %2: %3"_s.arg(Detail::quoted(request.address.name()), request.serverText(), text);
}

LockResult argumentDestroyed()
{
    return {DistributedLock::CancelledError,
            u"an object among its arguments was destroyed before the call could run; keep it until then, or pass what identifies it"_s,
            0};
}

LockResult threadEnded()
{
    return {DistributedLock::CancelledError, u"its thread has ended before the call could run"_s, 0};
}

QString noApplication()
{
    return QCoreApplication::instance() ? QString() : u"there is no QCoreApplication; create it first"_s;
}

LockResult optionsError(const QString &text)
{
    return {DistributedLock::OptionsError, text, 0};
}

QString LockedCall::displayName() const
{
    return method ? method->displayName() : u"withLock()"_s;
}

LockedCallInfo LockedCall::info(const LockRequest *request, const LockResult &result) const
{
    LockedCallInfo info;
    info.receiver = receiver;
    if (method) {
        info.className = method->className();
        info.method = method->methodName();
    }
    if (request) {
        info.lock = request->address.name();
        info.server = request->serverText();
    }
    info.error = result.error;
    const QString name = displayName();
    info.errorString = result.errorString.startsWith(name) ? result.errorString
                                                           : u"%1: %2"_s.arg(name, result.errorString);
    return info;
}

WaitingCall::WaitingCall(const LockedCall &call, const std::shared_ptr<Detail::LockedJob> &job)
    : call(call)
    , job(job)
{
    for (qsizetype i = 0; i < call.requests.size(); ++i)
        deadline = std::min(deadline, deadlineOf(i));
}

Deadline WaitingCall::deadlineOf(qsizetype request) const
{
    const milliseconds wait = call.requests.at(request).options.wait;
    const bool endless = wait >= std::chrono::duration_cast<milliseconds>(NeverTime - begun);
    return Deadline(endless ? NeverTime : begun + wait);
}

bool WaitingCall::isLatest() const
{
    return std::any_of(call.requests.begin(), call.requests.end(),
                       [](const LockRequest &request) { return request.onBusy == OnBusy::Latest; });
}

bool WaitingCall::isUnwanted() const
{
    return job->isCanceled() || (watched && !call.receiver);
}

void WaitingCall::fail(const LockRequest *request, const LockResult &result) const
{
    const bool skipped = request && (request->onBusy == OnBusy::Skip || request->onBusy == OnBusy::Latest)
            && result.error == DistributedLock::BusyError;
    const bool reported = job->fail(result, skipped);
    LockedCalls *const calls = LockedCalls::instance();
    // Expected: the application itself cancelled the future, destroyed the receiver, or ended. It may not know,
    // however, that a call needed an object that it destroyed.
    const bool expected = result.error == DistributedLock::CancelledError
            && (!call.receiver || ThreadCalls::hasApplicationEnded() || (reported && !call.objects.contains(nullptr)));
    const LockedCallInfo info = call.info(request, result);
    if (skipped || expected) {
        qCDebug(lcLock, "%ls", qUtf16Printable(withFields(info.errorString, info.lock)));
        if (!reported && calls && skipped)
            Q_EMIT calls->skipped(info);
        return;
    }
    // A warning if no future reports the failure, or if only a change of the program can mend it.
    const bool isWarning = !reported || result.error == DistributedLock::NameError
            || result.error == DistributedLock::OptionsError;
    FailureLog::instance()->log(isWarning ? QtWarningMsg : QtInfoMsg, call, info, !reported);
    if (!reported && calls)
        Q_EMIT calls->failed(info);
}

} // namespace QDistLock
