// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QtTest/qtest.h>

#include <initializer_list>
#include <utility>

namespace Support {

/// A table of test data with one column: the names of the rows, and their values.
template<typename T>
void addRows(const char *column, std::initializer_list<std::pair<const char *, T>> rows)
{
    QTest::addColumn<T>(column);
    for (const auto &[name, value] : rows)
        QTest::newRow(name) << value;
}

} // namespace Support
