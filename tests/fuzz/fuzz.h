// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QtCore/qbytearrayview.h>
#include <QtCore/qstring.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

/*
    A fuzz target is one source file with this function. libFuzzer calls it, or replay.cpp. It ends the
    process where a property does not hold, and must do the same for the same input each time.
*/
extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
/// Called once, before the first input; a target may define it.
extern "C" int LLVMFuzzerInitialize(int *argc, char ***argv);

namespace Fuzz {

[[noreturn]] inline void fail(const char *file, int line, const char *condition, const QByteArray &detail)
{
    std::fprintf(stderr, "%s:%d: does not hold: %s\n%s\n", file, line, condition, detail.constData());
    std::abort();
}

inline QByteArrayView bytes(const uint8_t *data, size_t size)
{
    return {reinterpret_cast<const char *>(data), qsizetype(size)};
}

/// Random numbers that depend on the input only, so that an input needs no extra part for them.
class Chance
{
public:
    explicit Chance(QByteArrayView seed)
    {
        for (const char byte : seed)
            m_state = (m_state ^ uint8_t(byte)) * 0x100000001b3; // FNV-1a
    }

    /// 0 ≤ result < \a limit
    qsizetype below(qsizetype limit)
    {
        m_state ^= m_state << 13;
        m_state ^= m_state >> 7;
        m_state ^= m_state << 17;
        return qsizetype((m_state >> 16) % uint64_t(limit));
    }

private:
    uint64_t m_state = 0xcbf29ce484222325;
};

} // namespace Fuzz

#define FUZZ_CHECK2(condition, detail) \
  do { \
    if (!(condition)) \
      Fuzz::fail(__FILE__, __LINE__, #condition, detail); \
  } while (false)
#define FUZZ_CHECK(condition) FUZZ_CHECK2(condition, QByteArray())
