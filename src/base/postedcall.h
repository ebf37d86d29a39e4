// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QtCore/qobject.h>

#include <functional>
#include <utility>

namespace QDistLock {

/*!
    A call that is made from the event loop, once however often it is posted before.

    A member of its context, or of something that lives as long.
*/
class PostedCall
{
public:
    PostedCall(QObject *context, std::function<void()> call)
        : m_context(context)
        , m_call(std::move(call))
    {
    }

    void post()
    {
        if (std::exchange(m_isPosted, true))
            return;
        QMetaObject::invokeMethod(
                m_context,
                [this] {
                    m_isPosted = false;
                    const auto call = m_call; // it may destroy this object
                    call();
                },
                Qt::QueuedConnection);
    }

    bool isPosted() const { return m_isPosted; }

private:
    Q_DISABLE_COPY_MOVE(PostedCall)

    QObject *const m_context;
    const std::function<void()> m_call;
    bool m_isPosted = false;
};

} // namespace QDistLock
