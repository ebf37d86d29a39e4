// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// Writes the man page and the completions of the shells to a folder, when the program is built.

#include "manpage.h"
#include "shellscripts.h"

#include <QtCore/qdir.h>
#include <QtCore/qfile.h>

#include <cstdio>

using namespace Qt::StringLiterals;

namespace {

bool write(const QString &path, const QByteArray &content)
{
    QFile file(path);
    if (file.open(QIODevice::WriteOnly) && file.write(content) == content.size() && file.flush())
        return true;
    std::fprintf(stderr, "%s: %s\n", qPrintable(path), qPrintable(file.errorString()));
    return false;
}

} // namespace

int main(int argc, char **argv)
{
    if (argc != 2) {
        std::fputs("Usage: qdistlock_makedocs FOLDER\n", stderr);
        return 64;
    }
    const QDir folder(QFile::decodeName(argv[1]));
    bool written = write(folder.filePath(u"qdistlock.1"_s), Cli::manPage());
    const QStringList shells = Cli::completionShells();
    for (const QString &shell : shells)
        written = written && write(folder.filePath(u"qdistlock."_s + shell), Cli::completionScript(shell).toUtf8());
    return written ? 0 : 1;
}
