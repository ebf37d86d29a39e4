// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// The reader of a hiredis whose structures differ, as those of 0.14 and 1.0 do. Whoever calls it crashes.

#include <cstdlib>

extern "C" {

void *redisReaderCreate()
{
    std::abort();
}

void redisReaderFree(void *)
{
    std::abort();
}

int redisReaderFeed(void *, const char *, std::size_t)
{
    std::abort();
}

int redisReaderGetReply(void *, void **)
{
    std::abort();
}

void freeReplyObject(void *)
{
    std::abort();
}

} // extern "C"
