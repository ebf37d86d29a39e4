// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "engine/glob.h"

#include <algorithm>

namespace QDistLock {

namespace {

/// The first element of a Redis glob: its length, and whether it matches a byte.
struct GlobElement
{
    qsizetype size;
    bool matches;
};

GlobElement globElement(QByteArrayView pattern, uchar byte)
{
    const auto at = [pattern](qsizetype i) { return uchar(pattern.at(i)); };
    if (at(0) == '?')
        return {1, true};
    if (at(0) == '\\' && pattern.size() > 1)
        return {2, at(1) == byte};
    if (at(0) != '[')
        return {1, at(0) == byte};

    qsizetype i = 1;
    const bool inverted = i < pattern.size() && at(i) == '^';
    if (inverted)
        ++i;
    bool found = false;
    while (i < pattern.size() && at(i) != ']') { // a set that is not closed reaches to the end
        if (at(i) == '\\' && i + 1 < pattern.size()) {
            found |= at(i + 1) == byte;
            i += 2;
        } else if (i + 2 < pattern.size() && at(i + 1) == '-') {
            const auto [least, greatest] = std::minmax({at(i), at(i + 2)});
            found |= least <= byte && byte <= greatest;
            i += 3;
        } else {
            found |= at(i) == byte;
            ++i;
        }
    }
    return {std::min(i + 1, pattern.size()), found != inverted};
}

} // namespace

bool globMatches(QByteArrayView pattern, QByteArrayView text)
{
    // Where the text does not match, the last star must take one byte more.
    qsizetype p = 0, t = 0, star = -1, taken = 0;
    while (t < text.size()) {
        if (p < pattern.size() && pattern.at(p) == '*') {
            star = ++p;
            taken = t;
            continue;
        }
        if (p < pattern.size()) {
            const GlobElement element = globElement(pattern.sliced(p), uchar(text.at(t)));
            if (element.matches) {
                p += element.size;
                ++t;
                continue;
            }
        }
        if (star < 0)
            return false;
        p = star;
        t = ++taken;
    }
    while (p < pattern.size() && pattern.at(p) == '*')
        ++p;
    return p == pattern.size();
}

} // namespace QDistLock
