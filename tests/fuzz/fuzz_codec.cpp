// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// The input is what a server sends. However it is cut into pieces, the parser returns the same replies, which a second,
// plain implementation confirms; they are within the limits; and memory is proportional to the input.

#include "fuzz.h"

#include "redis/codec.h"

#include <algorithm>

#if defined(__has_feature)
#  if __has_feature(address_sanitizer)
#    define WITH_ASAN
#  endif
#elif defined(__SANITIZE_ADDRESS__)
#  define WITH_ASAN
#endif
#ifdef WITH_ASAN
#  include <sanitizer/allocator_interface.h>
#endif

using namespace QtRedis;

namespace {

/// The result of feeding the input in one way.
struct Outcome
{
    QList<Reply> replies;
    QString error;
};

qint64 allocated()
{
#ifdef WITH_ASAN
    return qint64(__sanitizer_get_current_allocated_bytes());
#else
    return 0;
#endif
}

bool operator==(const Reply &left, const Reply &right)
{
    return left.type == right.type && left.integer == right.integer && left.text == right.text
            && std::equal(left.elements.begin(), left.elements.end(), right.elements.begin(), right.elements.end(),
                          [](const Reply &l, const Reply &r) { return l == r; });
}

bool equal(const QList<Reply> &left, const QList<Reply> &right)
{
    return std::equal(left.begin(), left.end(), right.begin(), right.end(),
                      [](const Reply &l, const Reply &r) { return l == r; });
}

void takeAll(ReplyReader *reader, QList<Reply> *replies)
{
    Reply reply;
    while (reader->next(&reply))
        replies->append(reply);
}

/// \a nextSize returns how many bytes to feed next, at least 1; it may be more than are left.
template<typename NextSize>
Outcome read(QByteArrayView input, const ReplyLimits &limits, NextSize nextSize)
{
    ReplyReader reader(limits);
    Outcome outcome;
    bool valid = true;
    while (valid && !input.isEmpty()) {
        const qsizetype size = std::min<qsizetype>(nextSize(), input.size());
        const bool measured = size > 1; // takes longer than the feeding
        const qint64 before = measured ? allocated() : 0;
        valid = reader.feed(input.data(), size);
        // hiredis keeps up to 64 KiB of an idle buffer, and doubles when it needs more.
        FUZZ_CHECK(!measured || allocated() - before <= 4 * qint64(size) + 256 * 1024);
        FUZZ_CHECK(valid != reader.hasError());
        takeAll(&reader, &outcome.replies);
        input = input.sliced(size);
    }
    outcome.error = reader.errorString();
    FUZZ_CHECK(reader.hasError() == !outcome.error.isEmpty());
    if (reader.hasError()) {
        // After an error, all further input fails, too.
        Reply reply;
        FUZZ_CHECK(!reader.feed("+OK\r\n", 5));
        FUZZ_CHECK(!reader.feed(nullptr, 0));
        FUZZ_CHECK(!reader.next(&reply));
        FUZZ_CHECK(reader.errorString() == outcome.error);
    }
    return outcome;
}

/// Removes the encoding of \a reply from the beginning of \a input; false if it begins with something else.
bool takeBytesOf(const Reply &reply, QByteArrayView *input)
{
    const auto take = [input](const QByteArray &bytes) {
        if (!input->startsWith(bytes))
            return false;
        *input = input->sliced(bytes.size());
        return true;
    };
    switch (reply.type) {
    case Reply::Nil:
        return take("$-1\r\n") || take("*-1\r\n");
    case Reply::Status:
        return take('+' + reply.text + "\r\n");
    case Reply::Error:
        return take('-' + reply.text + "\r\n");
    case Reply::Integer:
        return take(':' + QByteArray::number(reply.integer) + "\r\n");
    case Reply::Bulk:
        return take('$' + QByteArray::number(reply.text.size()) + "\r\n" + reply.text + "\r\n");
    case Reply::Array:
        break;
    }
    return take('*' + QByteArray::number(reply.elements.size()) + "\r\n")
            && std::all_of(reply.elements.begin(), reply.elements.end(),
                           [input](const Reply &element) { return takeBytesOf(element, input); });
}

void checkWithin(const Reply &reply, const ReplyLimits &limits, int depth, qsizetype *elements)
{
    switch (reply.type) {
    case Reply::Status:
    case Reply::Error:
        FUZZ_CHECK(reply.text.size() <= limits.lineLength);
        break;
    case Reply::Bulk:
        FUZZ_CHECK(reply.text.size() <= limits.bulkSize);
        break;
    case Reply::Array:
        FUZZ_CHECK(depth < limits.depth);
        *elements += reply.elements.size();
        FUZZ_CHECK(*elements <= limits.elements);
        for (const Reply &element : reply.elements)
            checkWithin(element, limits, depth + 1, elements);
        break;
    case Reply::Nil:
    case Reply::Integer:
        break;
    }
}

void check(QByteArrayView input, const ReplyLimits &limits)
{
    const Outcome whole = read(input, limits, [&] { return input.size(); });
    const Outcome bytewise = read(input, limits, [] { return 1; });
    Fuzz::Chance chance(input);
    const Outcome sliced = read(input, limits, [&] { return 1 + chance.below(1 + chance.below(64)); });
    for (const Outcome &other : {bytewise, sliced}) {
        FUZZ_CHECK2(whole.error == other.error, (whole.error + u'\n' + other.error).toUtf8());
        FUZZ_CHECK(equal(whole.replies, other.replies));
    }

    QByteArrayView rest = input;
    for (const Reply &reply : whole.replies) {
        const qsizetype before = rest.size();
        FUZZ_CHECK(takeBytesOf(reply, &rest));
        FUZZ_CHECK(before - rest.size() <= limits.replySize);
        if (&reply == &whole.replies.first()) {
            // Each reply is checked by itself, independently of earlier ones.
            const Outcome later = read(rest, limits, [&] { return rest.size(); });
            FUZZ_CHECK(later.error == whole.error && equal(later.replies, whole.replies.mid(1)));
        }
        qsizetype elements = 0;
        checkWithin(reply, limits, 0, &elements);
    }
    // The rest is an incomplete or wrong reply: complete replies are returned at once.
    if (whole.error.isEmpty() && !rest.isEmpty()) {
        const Outcome remaining = read(rest, limits, [&] { return rest.size(); });
        FUZZ_CHECK(remaining.replies.isEmpty() && remaining.error.isEmpty());
    }
}

void checkEncoder(QByteArrayView input)
{
    QList<QByteArray> arguments;
    Fuzz::Chance chance(input);
    while (!input.isEmpty()) {
        const qsizetype size = std::min<qsizetype>(chance.below(64), input.size());
        arguments.append(input.first(size).toByteArray());
        input = input.sliced(std::max<qsizetype>(size, 1)); // an empty argument costs a byte
    }
    if (arguments.isEmpty())
        return;
    const QByteArray bytes = encodeCommand(arguments);
    const Outcome outcome = read(bytes, {}, [&] { return bytes.size(); });
    FUZZ_CHECK(outcome.error.isEmpty() && outcome.replies.size() == 1);
    const QList<Reply> &elements = outcome.replies.first().elements;
    FUZZ_CHECK(std::equal(elements.begin(), elements.end(), arguments.begin(), arguments.end(),
                          [](const Reply &element, const QByteArray &argument) {
                              return element.type == Reply::Bulk && element.text == argument;
                          }));
}

} // namespace

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const QByteArrayView input = Fuzz::bytes(data, size);
    check(input, {});
    // So low that short inputs reach them.
    ReplyLimits near;
    near.lineLength = 20;
    near.bulkSize = 40;
    near.replySize = 100;
    near.elements = 6;
    near.depth = 3;
    check(input, near);
    checkEncoder(input);
    return 0;
}
