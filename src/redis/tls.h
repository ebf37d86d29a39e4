// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "redis/serverurl.h"

#include <QtNetwork/qtnetworkglobal.h>

#if QT_CONFIG(ssl)
#  include <QtNetwork/qsslconfiguration.h>
#  include <QtNetwork/qsslerror.h>

#  include <optional>

namespace QtRedis {

/// For TLS with \a server, from its caFile, certificateFile and keyFile. Null, with a clause in \a error, if one of
/// these cannot be used.
std::optional<QSslConfiguration> tlsConfiguration(const ServerUrl &server, QString *error);
/// Why the certificate of \a server is refused, for errors.
QString certificateProblems(const QList<QSslError> &errors, const ServerUrl &server);
/// Why a handshake has failed, a clause for errors. \a reason is Qt's error text.
QString handshakeProblem(const QString &reason);
/// The same, for a port that does not speak TLS.
QString plaintextProblem();

} // namespace QtRedis
#endif
