// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QtCore/qjsondocument.h>
#include <QtCore/qjsonobject.h>
#include <QtCore/qprocess.h>

#include <optional>

namespace Support {

/// The samples of \a text as the reference parser reads them, see readopenmetrics.py; empty, with a message on standard
/// error, if it does not. nullopt: there is no parser.
inline std::optional<QJsonObject> readOpenMetrics(const QByteArray &text, const QStringList &arguments = {})
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
        if (!parser.waitForFinished(60'000))
            return QJsonObject();
        if (parser.exitCode() != 77)
            return QJsonDocument::fromJson(parser.readAllStandardOutput()).object();
    }
    return std::nullopt;
}

#define SKIP_WITHOUT_OPENMETRICS(samples) \
  if (!samples) \
  QSKIP("There is no foreign program that reads OpenMetrics; tools/packages installs one, python3-prometheus-client.")

} // namespace Support
