// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QtCore/qjsonobject.h>
#include <QtCore/qlist.h>
#include <QtCore/qstringlist.h>

namespace Cli {

class Invocation;

enum class Stream { Output, Error };
enum class Style { Plain, Bold, Dim, Red, Green, Yellow };

/// Reads --color, --quiet, --verbose, --json and NO_COLOR, makes the log of Qt and the library obey them, and notes the
/// command, which each line on standard error names. Call it once, before anything is printed.
void setUpOutput(const Invocation &invocation);

/// For a command line that cannot be used, instead of setUpOutput(): one line on standard error. \a text names program
/// and command, see Invocation::parse().
void printUsageError(const QString &text);

bool isTerminal(Stream stream);
/// --json was given.
bool isJson();
bool isQuiet();

/// \a text in colour if \a stream shows colours, else unchanged.
QString styled(const QString &text, Style style, Stream stream = Stream::Output);
/// \a text with control characters and line ends escaped: names of locks may contain anything.
QString printable(const QString &text);

/// One line on standard error, after the names of program and command: "qdistlock run: …". Line ends in \a text become
/// spaces. Never blocks: if nobody reads standard error, the line is dropped.
void printError(const QString &text);
/// The same for what is worth knowing but no error; not with --quiet.
void printNote(const QString &text);
/// The same for details; only with --verbose.
void printDetail(const QString &text);

/// One line on standard output, flushed. False if it could not be written, which is printed unless its reader left.
bool printLine(const QString &text);
/// One object on one line.
bool printJson(const QJsonObject &object);
/// With --json: what became of the lock \a name, and \a more about it. False if it could not be written.
bool printOutcome(const QString &name, const QString &outcome, const QJsonObject &more = {});

/*!
    A line on the terminal, overwritten while something continues: "waiting for …". Shows nothing if standard error
    is not a terminal, and with --quiet. printError() and its relatives remove it first.
*/
class StatusLine
{
public:
    static bool isShown();
    static void show(const QString &text);
    static void clear();
};

/*!
    Rows and columns. On a terminal: aligned, with a header, cut to the width of the terminal. In a pipe: separated by
    tabs, without a header, never cut.
*/
class Table
{
public:
    enum Alignment { Left, Right };
    struct Column
    {
        QString title;
        Alignment alignment = Left;
    };
    struct Cell
    {
        QString text;
        Style style = Style::Plain;
    };

    /// \a isCut: to the width of the terminal.
    Table(const QList<Column> &columns, bool isCut);
    /// One cell for each column.
    void addRow(const QList<Cell> &cells);
    /// False if it could not be written.
    bool print() const;

private:
    QList<int> widths() const;

    const QList<Column> m_columns;
    const bool m_isCut;
    QList<QList<Cell>> m_rows;
};

} // namespace Cli
