// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "barecommands.h"

#include <QtCore/qiodevice.h>

#include <initializer_list>
#include <memory>

namespace Bench {

/*!
    A Qt socket with hiredis's formatter and reader, in the simplest form: each command is a separate write(), and Qt
    passes the bytes to the kernel in the next turn of the event loop.
*/
class BareQtSocket
{
public:
    explicit BareQtSocket(const QUrl &server);
    virtual ~BareQtSocket() = default;

protected:
    void send(std::initializer_list<QByteArray> arguments);
    /// Called for each reply, and for each message to a subscriber.
    virtual void received(const ReplyPointer &reply) = 0;

private:
    Q_DISABLE_COPY_MOVE(BareQtSocket)
    void read();

    struct FreeReader
    {
        void operator()(redisReader *reader) const { redisReaderFree(reader); }
    };
    const std::unique_ptr<redisReader, FreeReader> m_reader;
    std::unique_ptr<QIODevice> m_socket;
};

} // namespace Bench
