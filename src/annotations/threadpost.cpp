// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "annotations/threadpost.h"

#include <QtCore/qthread.h>

#include <atomic>
#include <memory>
#include <utility>

namespace QDistLock {

void postTo(QObject *object, std::function<void()> function, std::function<void()> ended)
{
    struct Delivery
    {
        ~Delivery() { QObject::disconnect(threadEnd); } // the posted event owns the delivery

        std::atomic<bool> decided{false};
        QMetaObject::Connection threadEnd;
    };
    const auto delivery = std::make_shared<Delivery>();
    if (QThread *const thread = object->thread()) {
        // Called directly if the object lives in the thread that ends. If the object was moved to another thread, the
        // posted function moved with it and is called before this slot.
        delivery->threadEnd = QObject::connect(thread, &QThread::finished, object,
                                               [weak = std::weak_ptr<Delivery>(delivery), ended] {
                                                   const auto delivery = weak.lock();
                                                   if (delivery && !delivery->decided.exchange(true))
                                                       ended();
                                               });
        if (thread->isFinished()) {
            if (!delivery->decided.exchange(true))
                ended();
            return;
        }
    }
    QMetaObject::invokeMethod(
            object,
            [delivery, function = std::move(function)] {
                if (!delivery->decided.exchange(true))
                    function();
            },
            Qt::QueuedConnection);
}

} // namespace QDistLock
