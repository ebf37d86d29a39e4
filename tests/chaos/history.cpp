// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "history.h"

#include <QtCore/qfile.h>

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

namespace Chaos {

qint64 bootTime()
{
    timespec time;
    clock_gettime(CLOCK_BOOTTIME, &time);
    return qint64(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

Event::Event(qint64 time, const QByteArray &process, const QByteArray &lock, const char *operation, const char *type)
{
    m_text.reserve(256);
    m_text = "{\"time\":" + QByteArray::number(time);
    with("process", process);
    if (!lock.isEmpty())
        with("lock", lock);
    with("operation", QByteArray(operation));
    with("type", QByteArray(type));
}

Event &Event::add(const char *field, const QByteArray &json)
{
    m_text += ",\"";
    m_text += field;
    m_text += "\":" + json;
    return *this;
}

Event &Event::with(const char *field, qint64 value)
{
    return add(field, QByteArray::number(value));
}

Event &Event::with(const char *field, bool value)
{
    return add(field, value ? "true" : "false");
}

Event &Event::with(const char *field, const QByteArray &value)
{
    return add(field, '"' + value + '"');
}

History::History(const QString &fileName)
    : m_fd(::open(QFile::encodeName(fileName).constData(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644))
{
    if (m_fd < 0)
        qFatal("cannot write the history %ls: %s", qUtf16Printable(fileName), std::strerror(errno));
}

History::~History()
{
    ::close(m_fd);
}

void History::append(const Event &event)
{
    const QByteArray line = event.text() + "}\n";
    if (::write(m_fd, line.constData(), size_t(line.size())) != line.size())
        qFatal("cannot write the history: %s", std::strerror(errno));
}

} // namespace Chaos
