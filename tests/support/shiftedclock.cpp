// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "shiftedclock.h"

#include <QtCore/qfile.h>

using namespace Qt::StringLiterals;

namespace Support {

QStringList ShiftedClock::environment() const
{
    return {QStringLiteral("LD_PRELOAD=" CLOCKSHIFT), u"CLOCKSHIFT_FILE="_s + fileName(),
            // AddressSanitizer's runtime demands to be loaded first.
            u"ASAN_OPTIONS=verify_asan_link_order=0"_s};
}

void ShiftedClock::shift(std::chrono::milliseconds by)
{
    write(0, {std::chrono::nanoseconds(by).count()});
}

void ShiftedClock::slowDown(int times)
{
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    write(sizeof(qint64), {std::chrono::nanoseconds(now).count(), times});
}

void ShiftedClock::write(qint64 offset, const QList<qint64> &numbers)
{
    QFile file(fileName());
    const qint64 size = qint64(sizeof(qint64)) * numbers.size();
    if (!file.open(QIODevice::ReadWrite | QIODevice::Unbuffered) || !file.seek(offset)
        || file.write(reinterpret_cast<const char *>(numbers.constData()), size) != size) {
        qFatal("cannot write %ls", qUtf16Printable(file.fileName()));
    }
}

} // namespace Support
