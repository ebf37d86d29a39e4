// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QtCore/qbytearrayview.h>

namespace Support {

/// The slot of a key in a Redis cluster, after its specification (CRC16-XMODEM modulo 16384). Shares no code with the
/// library, whose result is compared with this one.
inline int clusterSlot(QByteArrayView key)
{
    // Only the text between the first '{' and the first '}' after it counts, if it is not empty.
    const qsizetype open = key.indexOf('{');
    const qsizetype close = open < 0 ? -1 : key.indexOf('}', open + 1);
    if (close > open + 1)
        key = key.sliced(open + 1, close - open - 1);
    quint16 crc = 0;
    for (const char byte : key) {
        crc = quint16(crc ^ (quint8(byte) << 8));
        for (int bit = 0; bit < 8; ++bit)
            crc = quint16(crc & 0x8000 ? (crc << 1) ^ 0x1021 : crc << 1);
    }
    return crc % 16384;
}

} // namespace Support
