// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "base/identity.h"

#include <QtCore/qcoreapplication.h>
#include <QtCore/qmutex.h>
#include <QtCore/qsysinfo.h>

#include <algorithm>

using namespace Qt::StringLiterals;

namespace QDistLock {

namespace {

struct Setting
{
    QMutex mutex;
    QString text;
};
Q_GLOBAL_STATIC(Setting, setting)

QString cleaned(QStringView text)
{
    QString clean = text.first(std::min(text.size(), Identity::LongestPart)).toString();
    for (QChar &c : clean) {
        if (!Identity::isAllowed(c.unicode()))
            c = u'_';
    }
    return clean;
}

} // namespace

void Identity::setOfThisProcess(const QString &text)
{
    if (Setting *const current = setting()) {
        const QMutexLocker locker(&current->mutex);
        current->text = text;
    }
}

Identity Identity::ofThisProcess()
{
    QString text;
    if (Setting *const current = setting()) {
        const QMutexLocker locker(&current->mutex);
        text = current->text;
    }
    if (text == u"none" || qEnvironmentVariable("QDISTLOCK_IDENTITY") == u"none")
        return {};
    QStringView host;
    QStringView application = text;
    qint64 pid = 0;
    const qsizetype first = text.indexOf(u':');
    const qsizetype second = text.indexOf(u':', first + 1);
    if (first >= 0 && second >= 0) {
        host = application.first(first);
        pid = application.sliced(first + 1, second - first - 1).toLongLong();
        application = application.sliced(second + 1);
    }
    // After fork() the process id is another one, so it is never kept.
    return {cleaned(host.isEmpty() ? QSysInfo::machineHostName() : host.toString()),
            pid > 0 ? pid : QCoreApplication::applicationPid(),
            cleaned(application.isEmpty() ? QCoreApplication::applicationName() : application.toString())};
}

} // namespace QDistLock
