// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QtCore/qhash.h>

namespace Cli {

class DoctorConnection;
class DoctorReport;

/// The replicas that are connected to the server of \a connection, and how far they lag. \a info: of INFO, empty if
/// the user may not ask for it. False if the server does not say.
bool checkReplicas(DoctorConnection *connection, const QHash<QByteArray, QByteArray> &info, DoctorReport *report);

} // namespace Cli
