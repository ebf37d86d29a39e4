// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QtCore/qbytearray.h>

#include <array>

namespace QDistLock {

/// A token proves who holds a lock: `<client id>:<sequence>:<128 random bits>`, in hex but for the sequence. An engine
/// may append the decimal number that its connection has on the server, by which others find that connection. One that
/// begins with an 'r' is a reader's: it shares the lock with other readers. One that takes permits begins with a 'p',
/// the number of permits, an '@' if it wants slots, and a '/'. Thread-safe.
namespace Token {

/// \a token, which is one of an exclusive holder, as that of a reader.
QByteArray ofReader(const QByteArray &token);
bool isReader(const QByteArray &token);
/// \a token, which is one of an exclusive holder, as that of a holder of \a take permits. \a wantsSlots: each of them
/// gets a number, see Semaphore::slot().
QByteArray ofPermits(const QByteArray &token, int take, bool wantsSlots = false);
/// The number of permits that \a token takes; 0 if it is none of a holder of permits.
int permitsOf(const QByteArray &token);
/// Whether \a token is one of a holder of permits that wants slots.
bool wantsSlots(const QByteArray &token);
/// Whether it is a reader's or one of a holder of permits, so that others may hold the lock together with it.
bool isShared(const QByteArray &token);

/// The sequence number in \a token; 0 if \a token was not made by a TokenGenerator.
quint64 sequenceOf(const QByteArray &token);
/// The client id in \a token; empty if \a token was not made by a TokenGenerator.
QByteArray clientOf(const QByteArray &token);
/// Whether a client with this id made \a token.
bool isOf(const QByteArray &token, const QByteArray &clientId);
/// Whether \a text has the form of the client ids that a TokenGenerator makes.
bool isClientId(const QByteArray &text);
/// The number of the connection in \a token; empty if there is none.
QByteArray connectionOf(const QByteArray &token);

} // namespace Token

/// Makes the tokens of one client. Thread: one at a time.
class TokenGenerator
{
public:
    /// The version of docs/protocol.md that this library speaks, 1 to 15.
    static constexpr int ProtocolVersion = 1;

    /// If \a clientId is empty, a new one is made, different from all others.
    explicit TokenGenerator(const QByteArray &clientId = {});

    /// 16 hex digits, of which the first is the protocol version.
    const QByteArray &clientId() const { return m_clientId; }
    QByteArray makeToken();
    /// The sequence number of the last token made; 0 before the first.
    quint64 lastSequence() const { return m_sequence; }

private:
    QByteArray randomHex(size_t bytes);

    alignas(quint32) std::array<char, 256> m_random; ///< drawn ahead; each byte is used once
    size_t m_randomUsed = std::tuple_size_v<decltype(m_random)>;
    const QByteArray m_clientId;
    quint64 m_sequence = 0;
};

} // namespace QDistLock
