// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "annotations/callreceivers.h"

#include <QtCore/qcoreevent.h>

namespace QDistLock {

void CallReceivers::add(WaitingCall *call)
{
    if (!call->watched)
        return;
    Methods &methods = m_receivers[call->watched];
    if (methods.isEmpty()) {
        connect(call->watched, &QObject::destroyed, this, &CallReceivers::receiverDestroyed);
        call->watched->installEventFilter(this);
    }
    Method &method = methods[call->call.methodIdentity()];
    method.calls.emplace(call->id, call);
    if (call->isLatest())
        method.latest = call;
}

void CallReceivers::remove(const WaitingCall *call)
{
    const auto methods = m_receivers.find(call->watched);
    if (methods == m_receivers.end())
        return;
    const auto method = methods->find(call->call.methodIdentity());
    method->calls.erase(call->id);
    if (method->latest == call)
        method->latest = nullptr;
    if (method->calls.empty())
        methods->erase(method);
    if (!methods->isEmpty())
        return;
    m_receivers.erase(methods);
    if (call->call.receiver) {
        disconnect(call->watched, &QObject::destroyed, this, nullptr);
        call->watched->removeEventFilter(this);
    }
}

const CallReceivers::Method *CallReceivers::find(const WaitingCall *call) const
{
    const auto methods = m_receivers.constFind(call->watched);
    if (methods == m_receivers.constEnd())
        return nullptr;
    const auto method = methods->constFind(call->call.methodIdentity());
    return method == methods->constEnd() ? nullptr : &*method;
}

qsizetype CallReceivers::count(const WaitingCall *call) const
{
    const Method *const method = find(call);
    return method ? qsizetype(method->calls.size()) : 0;
}

WaitingCall *CallReceivers::replacedBy(const WaitingCall *call) const
{
    const Method *const method = call->isLatest() ? find(call) : nullptr;
    return method ? method->latest : nullptr;
}

CallsById CallReceivers::callsOf(const QObject *receiver) const
{
    CallsById calls;
    const Methods methods = m_receivers.value(receiver);
    for (const Method &method : methods)
        calls.insert(method.calls.begin(), method.calls.end());
    return calls;
}

bool CallReceivers::eventFilter(QObject *receiver, QEvent *event)
{
    if (event->type() == QEvent::ThreadChange)
        Q_EMIT receiverMoves(receiver);
    return false;
}

} // namespace QDistLock
