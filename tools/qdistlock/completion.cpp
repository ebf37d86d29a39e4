// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// `completion`, and `__complete`, which the scripts that `completion` prints call.

#include "commands.h"
#include "exitcodes.h"
#include "options.h"
#include "output.h"

#include <QtCore/qfile.h>

using namespace Qt::StringLiterals;

namespace Cli {

int runCompletion(const Invocation &invocation)
{
    const QString shell = invocation.operands().first();
    QFile script(u":/qdistlock."_s + shell);
    if (!script.open(QIODevice::ReadOnly)) {
        const QStringList shells = info(Command::Completion).operands.split(u'|');
        printError(u"there is none for \"%1\"; write %2"_s.arg(shell, shells.join(u" or "_s)));
        return UsageError;
    }
    return printLine(QString::fromUtf8(script.readAll().chopped(1))) ? Success : InternalError;
}

/*!
    Prints what can be the last of \a words, which follow the name of the program. The first line is "words", "files",
    or "command N": the first N words of the command line come before another command, which the shell completes.
    After "words", each line is one word, and perhaps a tab and an explanation. The shell chooses those that begin
    as the last word does.
*/
int runComplete(const QByteArrayList &words)
{
    const Completion completion = Invocation::complete(words);
    setUpOutput(completion.listing);
    if (completion.kind == Completion::Files)
        return printLine(u"files"_s) ? Success : InternalError;
    if (completion.kind == Completion::Program)
        return printLine(u"command %1"_s.arg(completion.wordsBefore)) ? Success : InternalError;
    bool printed = printLine(u"words"_s);
    for (const auto &[word, explanation] : completion.words)
        printed = printed && printLine(explanation.isEmpty() ? word : word + u'\t' + explanation);
    if (completion.kind == Completion::Names)
        return runList(completion.listing);
    return printed ? Success : InternalError;
}

} // namespace Cli
