// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QtCore/qvariant.h>
#include <QtTest/qtest.h>

#include <initializer_list>
#include <utility>

namespace Support {

/// Columns of test data, with their names.
template<typename... T, typename... Name>
void addColumns(Name... names)
{
    (QTest::addColumn<T>(names), ...);
}

/// A table of test data with one column: the names of the rows, and their values.
template<typename T>
void addRows(const char *column, std::initializer_list<std::pair<const char *, T>> rows)
{
    QTest::addColumn<T>(column);
    for (const auto &[name, value] : rows)
        QTest::newRow(name) << value;
}

/// A table whose rows are named after their only value: a QString or a QByteArray.
template<typename Text>
void addNamedRows(const char *column, std::initializer_list<const char *> values)
{
    QTest::addColumn<Text>(column);
    for (const char *value : values)
        QTest::newRow(value) << QVariant(QByteArray(value)).value<Text>();
}

} // namespace Support
