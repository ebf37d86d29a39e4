// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "redis/serverurl.h"

#include <chrono>

namespace Cli {

class DoctorConnection;
class DoctorReport;

/// Resolves the name of the server, and connects to each of its addresses; with TLS, verifies the certificate that each
/// of them shows. A client of the library may use any of them. False if none can be used, or after a signal.
bool checkAddresses(DoctorConnection *connection, std::chrono::milliseconds timeout, DoctorReport *report);

} // namespace Cli
