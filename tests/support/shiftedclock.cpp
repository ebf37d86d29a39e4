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
    const qint64 nanoseconds = std::chrono::nanoseconds(by).count();
    QFile file(fileName());
    if (!file.open(QIODevice::ReadWrite))
        qFatal("cannot write %ls", qUtf16Printable(file.fileName()));
    file.write(reinterpret_cast<const char *>(&nanoseconds), sizeof(nanoseconds));
}

} // namespace Support
