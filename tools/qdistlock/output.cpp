// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "output.h"

#include "options.h"

#include <QtCore/qjsondocument.h>
#include <QtCore/qloggingcategory.h>
#include <QtCore/qregularexpression.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <wchar.h>

using namespace Qt::StringLiterals;

namespace Cli {

namespace {

/// Of a table on a terminal.
constexpr int Gap = 2;
constexpr int NarrowestColumn = 8;

struct Settings
{
    bool json = false;
    bool quiet = false;
    bool verbose = false;
    std::array<bool, 2> terminal{};
    std::array<bool, 2> colors{};
    bool statusShown = false;
    QString speaker; ///< "qdistlock run"
};
Settings settings;

int descriptor(Stream stream)
{
    return stream == Stream::Output ? STDOUT_FILENO : STDERR_FILENO;
}

/*!
    Standard error, written to without blocking: a terminal that is stopped by Ctrl+S, or a pipe that nobody reads, must
    not keep `run` from ending its child in time.
*/
class ErrorChannel
{
public:
    ErrorChannel()
    {
        struct stat status = {};
        if (::fstat(STDERR_FILENO, &status) != 0)
            return;
        m_isSocket = S_ISSOCK(status.st_mode);
        // O_NONBLOCK on the inherited description would also apply to the child and to everybody else who shares it.
        if (S_ISFIFO(status.st_mode) || S_ISCHR(status.st_mode))
            m_own = ::open("/dev/fd/2", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    }

    void write(const QByteArray &text)
    {
        // A line is shorter than PIPE_BUF, so that a pipe accepts it whole or not at all.
        const QByteArray line = text.size() <= 4096 ? text : text.first(4093) + "…\n"_ba;
        ssize_t written = 0;
        if (m_own >= 0)
            written = ::write(m_own, line.constData(), size_t(line.size()));
        else if (m_isSocket)
            written = ::send(STDERR_FILENO, line.constData(), size_t(line.size()), MSG_DONTWAIT | MSG_NOSIGNAL);
        else if (pollfd ready{STDERR_FILENO, POLLOUT, 0}; ::poll(&ready, 1, 0) == 1 && (ready.revents & POLLOUT))
            written = ::write(STDERR_FILENO, line.constData(), size_t(line.size()));
        Q_UNUSED(written)
    }

private:
    int m_own = -1;
    bool m_isSocket = false;
};

ErrorChannel &errorChannel()
{
    static ErrorChannel channel;
    return channel;
}

/// \a text in one line, without user and password of a URL that was given where none belongs, as a command. Texts of
/// the library begin with a capital letter; here, names come before them.
QString flattened(QString text)
{
    static const QRegularExpression login(u"://[^\\s\"]*@"_s);
    text.replace(login, u"://***@"_s);
    if (text.startsWith(u"Lock "_s))
        text[0] = u'l';
    for (QChar &c : text) {
        if (c == u'\n' || c == u'\r')
            c = u' ';
    }
    return printable(text);
}

void printMessage(const QString &text, Style style)
{
    StatusLine::clear();
    const QString speaker = styled(settings.speaker + u": "_s, style, Stream::Error);
    errorChannel().write((speaker + flattened(text) + u'\n').toUtf8());
}

void handleMessage(QtMsgType type, const QMessageLogContext &, const QString &text)
{
    if (type == QtFatalMsg || type == QtCriticalMsg)
        printError(text);
    else
        printDetail(text);
}

bool writeAll(int fd, QByteArrayView bytes)
{
    while (!bytes.isEmpty()) {
        const ssize_t written = ::write(fd, bytes.data(), size_t(bytes.size()));
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0 && errno == EAGAIN) {
            pollfd ready{fd, POLLOUT, 0};
            ::poll(&ready, 1, -1);
            continue;
        }
        if (written < 0) {
            if (errno != EPIPE) // whoever reads has seen enough, as `head`
                printError(u"standard output cannot be written: %1"_s.arg(qt_error_string(errno)));
            return false;
        }
        bytes = bytes.sliced(written);
    }
    return true;
}

/// The number of columns of a terminal that \a text takes.
int columns(const QString &text)
{
    int width = 0;
    const auto codePoints = text.toUcs4();
    for (const uint codePoint : codePoints)
        width += std::max(0, ::wcwidth(wchar_t(codePoint)));
    return width;
}

/// \a text in at most \a width columns.
QString cutTo(const QString &text, int width)
{
    if (columns(text) <= width)
        return text;
    QString cut = text;
    while (!cut.isEmpty() && columns(cut) > width - 1) {
        const bool isPair = cut.back().isLowSurrogate() && cut.size() > 1;
        cut.chop(isPair ? 2 : 1);
    }
    return width > 0 ? cut + u'…' : QString();
}

int terminalWidth(Stream stream)
{
    winsize size = {};
    if (::ioctl(descriptor(stream), TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        return size.ws_col;
    return 80;
}

} // namespace

void setUpOutput(const Invocation &invocation)
{
    settings.json = invocation.has(Option::Json);
    settings.quiet = invocation.has(Option::Quiet);
    settings.verbose = invocation.has(Option::Verbose);
    settings.speaker = invocation.commandText();
    const QString color = invocation.text(Option::Color);
    const bool allowed = qEnvironmentVariableIsEmpty("NO_COLOR") && qgetenv("TERM") != "dumb";
    for (const Stream stream : {Stream::Output, Stream::Error}) {
        const bool terminal = ::isatty(descriptor(stream)) == 1;
        settings.terminal.at(size_t(stream)) = terminal;
        settings.colors.at(size_t(stream)) = color == u"always" || (color != u"never" && terminal && allowed);
    }
    qInstallMessageHandler(handleMessage);
}

bool isTerminal(Stream stream)
{
    return settings.terminal.at(size_t(stream));
}

bool isJson()
{
    return settings.json;
}

bool isQuiet()
{
    return settings.quiet;
}

QString styled(const QString &text, Style style, Stream stream)
{
    static constexpr std::array Codes{"0", "1", "2", "31", "32", "33"};
    if (style == Style::Plain || text.isEmpty() || !settings.colors.at(size_t(stream)))
        return text;
    return u"\033["_s + QLatin1String(Codes.at(size_t(style))) + u'm' + text + u"\033[0m"_s;
}

QString printable(const QString &text)
{
    QString result;
    result.reserve(text.size());
    for (qsizetype i = 0; i < text.size(); ++i) {
        const QChar c = text.at(i);
        const bool isPair = c.isHighSurrogate() && i + 1 < text.size() && text.at(i + 1).isLowSurrogate();
        if (isPair && QChar::isPrint(QChar::surrogateToUcs4(c, text.at(i + 1)))) {
            result += c;
            result += text.at(++i);
        } else if (c.isPrint()) {
            result += c;
        } else if (c == u'\n') {
            result += u"\\n"_s;
        } else {
            result += u"\\u%1"_s.arg(int(c.unicode()), 4, 16, QLatin1Char('0'));
        }
    }
    return result;
}

void printUsageError(const QString &text)
{
    errorChannel().write((flattened(text) + u'\n').toUtf8());
}

void printError(const QString &text)
{
    printMessage(text, Style::Red);
}

void printNote(const QString &text)
{
    if (!settings.quiet)
        printMessage(text, Style::Yellow);
}

void printDetail(const QString &text)
{
    if (settings.verbose)
        printMessage(text, Style::Dim);
}

bool printLine(const QString &text)
{
    return writeAll(STDOUT_FILENO, (text + u'\n').toUtf8());
}

bool printJson(const QJsonObject &object)
{
    return writeAll(STDOUT_FILENO, QJsonDocument(object).toJson(QJsonDocument::Compact) + '\n');
}

bool printOutcome(const QString &name, const QString &outcome, const QJsonObject &more)
{
    QJsonObject object = more;
    object.insert(u"command"_s, settings.speaker.section(u' ', 1));
    object.insert(u"name"_s, name);
    object.insert(u"outcome"_s, outcome);
    return !isJson() || printJson(object);
}

bool StatusLine::isShown()
{
    return isTerminal(Stream::Error) && !settings.quiet && qgetenv("TERM") != "dumb";
}

void StatusLine::show(const QString &text)
{
    if (!isShown())
        return;
    const QString line = cutTo(printable(text), terminalWidth(Stream::Error) - 1);
    errorChannel().write((u"\r"_s + styled(line, Style::Dim, Stream::Error) + u"\033[K"_s).toUtf8());
    settings.statusShown = true;
}

void StatusLine::clear()
{
    if (std::exchange(settings.statusShown, false))
        errorChannel().write("\r\033[K"_ba);
}

Table::Table(const QList<Column> &columns, bool isCut)
    : m_columns(columns)
    , m_isCut(isCut)
{
}

void Table::addRow(const QList<Cell> &cells)
{
    QList<Cell> row = cells;
    for (Cell &cell : row)
        cell.text = printable(cell.text);
    m_rows.append(row);
}

/// On a terminal.
QList<int> Table::widths() const
{
    QList<int> widths;
    int total = Gap * int(m_columns.size() - 1);
    for (qsizetype i = 0; i < m_columns.size(); ++i) {
        int width = columns(m_columns.at(i).title);
        for (const QList<Cell> &row : m_rows)
            width = std::max(width, columns(row.at(i).text));
        widths += width;
        total += width;
    }
    // The widest columns give way first.
    for (; m_isCut && total > terminalWidth(Stream::Output); --total) {
        int &widest = *std::max_element(widths.begin(), widths.end());
        if (widest <= NarrowestColumn)
            break;
        --widest;
    }
    return widths;
}

bool Table::print() const
{
    const bool isAligned = isTerminal(Stream::Output);
    const QList<int> widths = isAligned ? this->widths() : QList<int>();
    QList<QList<Cell>> rows = m_rows;
    if (isAligned && !rows.isEmpty()) {
        rows.prepend({});
        for (const Column &column : m_columns)
            rows.first().append({column.title, Style::Bold});
    }
    QString text;
    for (const QList<Cell> &row : std::as_const(rows)) {
        QStringList cells;
        for (qsizetype i = 0; i < row.size(); ++i) {
            const QString cut = isAligned ? cutTo(row.at(i).text, widths.at(i)) : row.at(i).text;
            const QString shown = styled(cut, row.at(i).style);
            const QString padding(isAligned ? std::max(0, widths.at(i) - columns(cut)) : 0, u' ');
            if (m_columns.at(i).alignment == Right)
                cells += padding + shown;
            else
                cells += i + 1 == row.size() ? shown : shown + padding;
        }
        text += cells.join(isAligned ? QString(Gap, u' ') : u"\t"_s) + u'\n';
    }
    return writeAll(STDOUT_FILENO, text.toUtf8());
}

} // namespace Cli
