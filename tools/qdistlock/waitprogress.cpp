// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "waitprogress.h"

#include "lockset.h"
#include "lockview.h"
#include "output.h"
#include "session.h"

#include <QtCore/qfuture.h>

using namespace Qt::StringLiterals;

using namespace std::chrono_literals;
using QDistLock::DistributedLock;
using QDistLock::LockInfo;
using QDistLock::Detail::quoted;

namespace Cli {

namespace {

constexpr auto FirstShownAfter = 500ms;
constexpr auto ShownEvery = 1s;
constexpr int AsksEvery = 3; // times that it is shown

/// "1st", "2nd", "11th".
QString ordinal(int number)
{
    const int units = number % 10;
    const bool isTeen = number % 100 >= 11 && number % 100 <= 13;
    static const QStringList Endings{u"th"_s, u"st"_s, u"nd"_s, u"rd"_s};
    return QString::number(number) + Endings.at(isTeen || units > 3 ? 0 : units);
}

} // namespace

WaitProgress::WaitProgress(Session *session, LockSet *locks)
    : m_session(session)
    , m_locks(locks)
{
    m_waited.start();
    connect(&m_timer, &QTimer::timeout, this, &WaitProgress::show);
    connect(locks, &LockSet::acquired, this, [this] {
        m_timer.stop();
        StatusLine::clear();
    });
    if (StatusLine::isShown())
        m_timer.start(FirstShownAfter);
}

WaitProgress::~WaitProgress()
{
    StatusLine::clear();
}

void WaitProgress::show()
{
    m_timer.setInterval(ShownEvery);
    if (!m_locks->isAcquiring())
        return;
    if (m_ticks++ % AsksEvery == 0 || m_askedFor != m_locks->presentLock()->name())
        askForHolder();
    const DistributedLock *const lock = m_locks->presentLock();
    QString text = u"waiting for lock %1"_s.arg(quoted(lock->name()));
    if (!m_session->wasReached())
        text += u", connecting to "_s + m_session->serverText();
    else if (lock->queuePosition() >= 0)
        text += u", %1 in the queue"_s.arg(ordinal(lock->queuePosition() + 1));
    if (!m_holder.isEmpty() && m_askedFor == lock->name())
        text += u", held by "_s + m_holder;
    text += u" (%1)"_s.arg(roughText(std::chrono::seconds(m_waited.elapsed() / 1000)));
    StatusLine::show(text);
}

void WaitProgress::askForHolder()
{
    m_askedFor = m_locks->presentLock()->name();
    if (!m_session->wasReached())
        return;
    m_session->registry()->inspect(m_askedFor).then(this, [this](const LockInfo &info) {
        if (info.name == m_askedFor)
            m_holder = info.error == DistributedLock::NoError && info.held ? info.holderText() : QString();
    });
}

} // namespace Cli
