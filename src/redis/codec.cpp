// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "redis/codec.h"

#include <hiredis/hiredis.h>

#include <algorithm>
#include <cstring>
#include <limits>

using namespace Qt::StringLiterals;

namespace QtRedis {

namespace {

// The depth that hiredis 0.14 can parse; newer versions can parse a little more.
constexpr int HiredisDepth = 7;
// Bytes of its unused buffer that an idle hiredis reader keeps.
constexpr size_t IdleBuffer = 64 * 1024;

int digitCount(qsizetype number)
{
    int digits = 1;
    for (; number >= 10; number /= 10)
        ++digits;
    return digits;
}

// "<type><number>\r\n"
char *writeHeader(char *out, char type, qsizetype number)
{
    *out++ = type;
    const int digits = digitCount(number);
    for (int i = digits - 1; i >= 0; --i) {
        out[i] = char('0' + number % 10);
        number /= 10;
    }
    out += digits;
    *out++ = '\r';
    *out++ = '\n';
    return out;
}

qsizetype headerSize(qsizetype number)
{
    return 1 + digitCount(number) + 2;
}

// hiredis before 1.0.1 has no such limit; the scanner checks it, too.
template<typename Reader>
auto limitElements(Reader *reader, long long elements, int) -> decltype(void(reader->maxelements))
{
    reader->maxelements = elements;
}

template<typename Reader>
void limitElements(Reader *, long long, long)
{
}

QByteArray text(const redisReply &reply)
{
    return QByteArray(reply.str, qsizetype(reply.len));
}

void convert(const redisReply &from, Reply *to)
{
    switch (from.type) {
    case REDIS_REPLY_STATUS:
        to->type = Reply::Status;
        to->text = text(from);
        break;
    case REDIS_REPLY_ERROR:
        to->type = Reply::Error;
        to->text = text(from);
        break;
    case REDIS_REPLY_STRING:
        to->type = Reply::Bulk;
        to->text = text(from);
        break;
    case REDIS_REPLY_INTEGER:
        to->type = Reply::Integer;
        to->integer = from.integer;
        break;
    case REDIS_REPLY_ARRAY:
        to->type = Reply::Array;
        to->elements.resize(qsizetype(from.elements));
        for (size_t i = 0; i < from.elements; ++i)
            convert(*from.element[i], &to->elements[qsizetype(i)]);
        break;
    default:
        to->type = Reply::Nil;
    }
}

} // namespace

void appendCommand(QByteArray *buffer, std::initializer_list<QByteArrayView> first, const QList<QByteArray> &second,
                   const QList<QByteArray> &third)
{
    const qsizetype count = qsizetype(first.size()) + second.size() + third.size();
    qsizetype size = headerSize(count);
    const auto measure = [&size](QByteArrayView argument) {
        size += headerSize(argument.size()) + argument.size() + 2;
    };
    std::for_each(first.begin(), first.end(), measure);
    std::for_each(second.begin(), second.end(), measure);
    std::for_each(third.begin(), third.end(), measure);

    const qsizetype start = buffer->size();
    buffer->resize(start + size); // grows geometrically, unlike reserve()
    char *out = writeHeader(buffer->data() + start, '*', count);
    const auto write = [&out](QByteArrayView argument) {
        out = writeHeader(out, '$', argument.size());
        if (!argument.isEmpty())
            std::memcpy(out, argument.data(), size_t(argument.size()));
        out += argument.size();
        *out++ = '\r';
        *out++ = '\n';
    };
    std::for_each(first.begin(), first.end(), write);
    std::for_each(second.begin(), second.end(), write);
    std::for_each(third.begin(), third.end(), write);
    Q_ASSERT(out == buffer->constData() + buffer->size());
}

void appendCommand(QByteArray *buffer, const QList<QByteArray> &arguments)
{
    appendCommand(buffer, {}, arguments, {});
}

QByteArray encodeCommand(const QList<QByteArray> &arguments)
{
    QByteArray buffer;
    appendCommand(&buffer, arguments);
    return buffer;
}

/*
    The scanner follows the structure of the bytes and keeps only counters. hiredis gets no more
    than the limits allow and parses a reply only when all of it is there, so a header that promises
    much costs nothing, and a reply that comes in many pieces is not parsed again for each.
*/
class ReplyReader::Private
{
public:
    explicit Private(const ReplyLimits &limits);
    ~Private();

    bool scan(const char *data, qsizetype size, qsizetype *completeEnd);
    bool fail(const QString &reason);

    redisReader *reader;
    qsizetype complete = 0; // replies that hiredis has completely and next() has not returned yet
    QString error;

private:
    enum State { Type, Line, LineFeed, Bulk, BulkReturn, BulkLineFeed };

    bool beginItem(char typeByte);
    bool addToNumber(char byte);
    bool endLine();
    void endItem();

    ReplyLimits limits;
    State state = Type;
    char type = 0;
    bool negative = false;
    int digits = 0;
    quint64 number = 0;       // magnitude
    qsizetype lineLength = 0; // bytes after the type byte
    qsizetype bulkLeft = 0;
    qsizetype replySize = 0;           // bytes of the current reply so far
    qsizetype elements = 0;            // announced in the current reply
    int depth = 0;                     // arrays open now
    qsizetype left[HiredisDepth] = {}; // elements each open array still waits for
};

ReplyReader::Private::Private(const ReplyLimits &replyLimits)
    : reader(redisReaderCreate())
    , limits(replyLimits)
{
    limits.depth = qBound(0, limits.depth, HiredisDepth);
    Q_CHECK_PTR(reader);
    reader->maxbuf = IdleBuffer;
    limitElements(reader, limits.elements, 0);
}

ReplyReader::Private::~Private()
{
    redisReaderFree(reader);
}

bool ReplyReader::Private::fail(const QString &reason)
{
    error = reason;
    return false;
}

bool ReplyReader::Private::beginItem(char typeByte)
{
    type = typeByte;
    lineLength = 0;
    negative = false;
    digits = 0;
    number = 0;
    switch (typeByte) {
    case '*':
        if (depth >= limits.depth) {
            return fail(u"arrays nested more than %1 deep"_s.arg(limits.depth));
        }
        break;
    case '+':
    case '-':
    case ':':
    case '$':
        break;
    default:
        return fail(u"unknown reply type, byte 0x%1"_s.arg(uint(uchar(typeByte)), 2, 16, QLatin1Char('0')));
    }
    state = Line;
    return true;
}

// Accepts only the canonical spelling of each number, as hiredis does.
bool ReplyReader::Private::addToNumber(char byte)
{
    if (byte == '-' && lineLength == 1) {
        negative = true;
        return true;
    }
    if (byte < '0' || byte > '9')
        return fail(u"a number with a byte that is no digit"_s);
    if (digits > 0 && number == 0)
        return fail(u"a number with a leading zero"_s);
    ++digits;

    const auto digit = quint64(byte - '0');
    const quint64 most = quint64(std::numeric_limits<qint64>::max()) + (negative ? 1 : 0);
    if (number > (most - digit) / 10)
        return fail(u"a number of more than 64 bits"_s);
    number = number * 10 + digit;

    if (type == '$' && number > quint64(limits.bulkSize))
        return fail(u"a string of more than %1 bytes"_s.arg(limits.bulkSize));
    if (type == '*' && number > quint64(limits.elements - elements))
        return fail(u"a reply of more than %1 elements"_s.arg(limits.elements));
    return true;
}

bool ReplyReader::Private::endLine()
{
    if (type == '+' || type == '-') {
        endItem();
        return true;
    }
    if (digits == 0)
        return fail(u"a number without digits"_s);
    if (negative && number == 0)
        return fail(u"a number spelled -0"_s);
    if (type == ':') {
        endItem();
        return true;
    }
    if (negative) {
        if (number != 1)
            return fail(u"a negative length other than -1"_s);
        endItem();
        return true;
    }
    if (type == '$') {
        bulkLeft = qsizetype(number);
        if (bulkLeft > limits.replySize - replySize)
            return fail(u"a reply of more than %1 bytes"_s.arg(limits.replySize));
        state = bulkLeft > 0 ? Bulk : BulkReturn;
        return true;
    }
    elements += qsizetype(number);
    if (number == 0) {
        endItem();
    } else {
        left[depth++] = qsizetype(number);
        state = Type;
    }
    return true;
}

void ReplyReader::Private::endItem()
{
    state = Type;
    while (depth > 0) {
        if (--left[depth - 1] > 0)
            return;
        --depth;
    }
    ++complete;
    replySize = 0;
    elements = 0;
}

bool ReplyReader::Private::scan(const char *data, qsizetype size, qsizetype *completeEnd)
{
    const char *const end = data + size;
    const char *at = data;
    while (at != end) {
        if (state == Bulk) {
            const qsizetype part = qMin(bulkLeft, qsizetype(end - at));
            at += part;
            replySize += part;
            bulkLeft -= part;
            if (bulkLeft == 0)
                state = BulkReturn;
            continue;
        }
        const char byte = *at++;
        if (++replySize > limits.replySize)
            return fail(u"a reply of more than %1 bytes"_s.arg(limits.replySize));
        switch (state) {
        case Type:
            if (!beginItem(byte))
                return false;
            break;
        case Line:
            if (byte == '\r') {
                state = LineFeed;
                break;
            }
            if (++lineLength > limits.lineLength)
                return fail(u"a line of more than %1 bytes"_s.arg(limits.lineLength));
            if (byte == '\n')
                return fail(u"a line that does not end in CR LF"_s);
            if (type != '+' && type != '-' && !addToNumber(byte))
                return false;
            break;
        case LineFeed:
            if (byte != '\n')
                return fail(u"a line that does not end in CR LF"_s);
            if (!endLine())
                return false;
            break;
        case BulkReturn:
            if (byte != '\r')
                return fail(u"a string longer than announced"_s);
            state = BulkLineFeed;
            break;
        case BulkLineFeed:
            if (byte != '\n')
                return fail(u"a string longer than announced"_s);
            endItem();
            break;
        case Bulk:
            Q_UNREACHABLE();
        }
        if (replySize == 0)
            *completeEnd = at - data;
    }
    return true;
}

ReplyReader::ReplyReader(const ReplyLimits &limits)
    : d(std::make_unique<Private>(limits))
{
}

ReplyReader::~ReplyReader() = default;

bool ReplyReader::feed(const char *data, qsizetype size)
{
    if (hasError())
        return false;
    qsizetype completeEnd = 0;
    const bool valid = d->scan(data, size, &completeEnd);
    // The replies before the invalid bytes are valid; next() returns them.
    const qsizetype usable = valid ? size : completeEnd;
    if (usable > 0 && redisReaderFeed(d->reader, data, size_t(usable)) != REDIS_OK)
        return d->fail(QString::fromUtf8(d->reader->errstr));
    return valid;
}

bool ReplyReader::next(Reply *reply)
{
    if (d->complete == 0)
        return false;
    void *parsed = nullptr;
    if (redisReaderGetReply(d->reader, &parsed) != REDIS_OK || !parsed) {
        d->complete = 0;
        return d->fail(QString::fromUtf8(d->reader->errstr));
    }
    --d->complete;
    *reply = {};
    convert(*static_cast<redisReply *>(parsed), reply);
    freeReplyObject(parsed);
    return true;
}

bool ReplyReader::hasError() const
{
    return !d->error.isEmpty();
}

QString ReplyReader::errorString() const
{
    return d->error;
}

} // namespace QtRedis
