// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QtCore/qhash.h>

namespace Cli {

class DoctorProbe;
class DoctorReport;

/// The replicas that are connected to the server of \a probe, and how far they lag behind. \a info: of INFO, empty if
/// the user may not ask for it. False if the server does not say.
bool checkReplicas(DoctorProbe *probe, const QHash<QByteArray, QByteArray> &info, DoctorReport *report);

} // namespace Cli
