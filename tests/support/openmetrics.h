// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QtCore/qjsondocument.h>
#include <QtCore/qjsonobject.h>
#include <QtCore/qprocess.h>
#include <QtTest/qtest.h>

namespace Support {

/// The samples of \a text as the reference parser reads them, see readopenmetrics.py. If it does not, or is not
/// installed, the test fails, and the result is empty.
inline QJsonObject readOpenMetrics(const QByteArray &text, const QStringList &arguments = {})
{
    // A package of the distribution is for the interpreter of the distribution.
    for (const auto *const interpreter : {"/usr/bin/python3", "python3"}) {
        QProcess parser;
        parser.setProcessChannelMode(QProcess::ForwardedErrorChannel);
        parser.start(QLatin1String(interpreter),
                     QStringList{QStringLiteral(SUPPORT_FOLDER "/readopenmetrics.py")} + arguments);
        if (!parser.waitForStarted())
            continue;
        parser.write(text);
        parser.closeWriteChannel();
        const bool hasEnded = parser.waitForFinished(60'000);
        if (hasEnded && parser.exitCode() == 77)
            continue;
        if (!hasEnded || parser.exitCode() != 0)
            QTest::qFail("The text is not OpenMetrics; the parser says why", __FILE__, __LINE__);
        return QJsonDocument::fromJson(parser.readAllStandardOutput()).object();
    }
    QTest::qFail("python3-prometheus-client, which reads OpenMetrics, is not installed; tools/packages installs it",
                 __FILE__, __LINE__);
    return {};
}

} // namespace Support
