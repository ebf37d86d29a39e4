// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QtCore/qstring.h>

namespace Cli {

class DoctorConnection;
class DoctorReport;

/// Alone: also the master of a Sentinel service.
enum class ServerRole { Alone, OfCluster, OfQuorum };

/// Reports whether the server executes scripts. Tries every right of docs/acl.txt, or, if locks are kept without
/// scripts, the rights for that, as the user of \a connection: by ACL DRYRUN, or, where server or user has no such
/// command, by the commands themselves on a scratch name behind \a prefix, of which nothing remains. For a node of a
/// cluster, also the rights that only clusters need.
void checkRights(DoctorConnection *connection, const QString &prefix, ServerRole role, DoctorReport *report);

} // namespace Cli
