// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "tokenfile.h"

#include <QDistLock/LockResult>

#include <QtCore/qfileinfo.h>
#include <QtCore/qjsondocument.h>
#include <QtCore/qjsonobject.h>

#include <cerrno>
#include <cstring>

#include <sys/stat.h>
#include <unistd.h>

using namespace Qt::StringLiterals;

using QDistLock::Detail::quoted;
using std::chrono::milliseconds;

namespace Cli {

namespace {

/// A name and a prefix of 1024 bytes each, escaped as \u00e9, and all the rest.
constexpr qint64 LargestFile = 32 * 1024;

std::optional<TokenFile> parse(const QByteArray &text)
{
    const QJsonObject object = QJsonDocument::fromJson(text).object();
    TokenFile file;
    file.name = object.value(u"name"_s).toString();
    file.prefix = object.value(u"prefix"_s).toString();
    file.token = object.value(u"token"_s).toString().toLatin1();
    file.fencingToken = object.value(u"fence"_s).toInteger();
    file.lease = milliseconds(object.value(u"leaseMs"_s).toInteger());
    file.minHoldUntil = object.value(u"minHoldUntilMs"_s).toInteger();
    if (file.name.isEmpty() || file.token.isEmpty() || file.lease <= milliseconds::zero())
        return std::nullopt;
    return file;
}

} // namespace

std::optional<TokenFile> TokenFile::read(const QString &path, QString *error)
{
    QFile file(path);
    if (!file.open(QIODevice::ReadOnly)) {
        *error = u"the token file %1 cannot be read: %2; use the file that `qdistlock acquire --token-file` has "
                 "written, and that `release` removes"_s.arg(quoted(path), file.errorString());
        return std::nullopt;
    }
    const auto content = parse(file.read(LargestFile));
    if (!content) {
        *error = u"the file %1 is not a token file; use the one that `qdistlock acquire --token-file` has written"_s
                         .arg(quoted(path));
    }
    return content;
}

void TokenFile::remove(const QString &path) const
{
    QString ignored;
    const auto present = read(path, &ignored);
    if (present && present->token == token)
        QFile::remove(path);
}

TokenFileWriter::TokenFileWriter(const QString &path)
    : m_file(path)
{
}

TokenFileWriter::~TokenFileWriter()
{
    if (m_file.isOpen() && isInPlace())
        m_file.remove();
}

bool TokenFileWriter::isInPlace() const
{
    struct stat own = {};
    struct stat present = {};
    return ::fstat(m_file.handle(), &own) == 0
            && ::lstat(QFile::encodeName(m_file.fileName()).constData(), &present) == 0 && own.st_dev == present.st_dev
            && own.st_ino == present.st_ino;
}

bool TokenFileWriter::fail(const QString &reason)
{
    m_error = u"the token file %1 cannot be written: %2"_s.arg(quoted(m_file.fileName()), reason);
    return false;
}

bool TokenFileWriter::create()
{
    // NewOnly also refuses a link, wherever it leads.
    if (m_file.open(QIODevice::WriteOnly | QIODevice::NewOnly | QIODevice::Unbuffered,
                    QFileDevice::ReadOwner | QFileDevice::WriteOwner))
        return true;
    const QFileInfo existing(m_file);
    if (!existing.exists() && !existing.isSymLink())
        return fail(u"%1; give another --token-file"_s.arg(m_file.errorString()));
    if (existing.isFile() && existing.size() == 0)
        return fail(
                u"it exists, and is empty: an acquire that uses it waits, or was killed; give another --token-file, or remove it"_s);
    return fail(u"it exists; give another --token-file"_s);
}

bool TokenFileWriter::commit(const TokenFile &content)
{
    QJsonObject object{
            {u"name"_s, content.name},
            {u"prefix"_s, content.prefix},
            {u"token"_s, QString::fromLatin1(content.token)},
            {u"fence"_s, content.fencingToken},
            {u"leaseMs"_s, qint64(content.lease.count())},
    };
    if (content.minHoldUntil > 0)
        object.insert(u"minHoldUntilMs"_s, content.minHoldUntil);
    const QByteArray text = QJsonDocument(object).toJson(QJsonDocument::Compact) + '\n';
    if (m_file.write(text) != text.size())
        return fail(m_file.errorString());
    if (::fsync(m_file.handle()) != 0 && errno != EINVAL) // not every file system can
        return fail(QString::fromLocal8Bit(std::strerror(errno)));
    if (!isInPlace())
        return fail(u"somebody has removed or replaced it meanwhile"_s);
    m_file.close();
    return true;
}

} // namespace Cli
