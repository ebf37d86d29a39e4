// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// `completion`.

#include "commands.h"
#include "exitcodes.h"
#include "options.h"
#include "output.h"
#include "shellscripts.h"

using namespace Qt::StringLiterals;

namespace Cli {

int runCompletion(const Invocation &invocation)
{
    const QString shell = invocation.operands().first();
    const QString script = completionScript(shell);
    if (script.isEmpty()) {
        printError(u"there is none for \"%1\"; write %2"_s.arg(shell, completionShells().join(u" or "_s)));
        return UsageError;
    }
    return printLine(script.chopped(1)) ? Success : InternalError;
}

} // namespace Cli
