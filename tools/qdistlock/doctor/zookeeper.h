// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QtCore/qurl.h>

#include <chrono>

namespace Cli {

class DoctorReport;
class Session;

/// Asks each server of the ensemble whether it serves and as what, which sessions it grants, and looks whether locks
/// can be listed. Returns the exit code with which a signal has ended the program; 0 if none has.
int checkZooKeeper(Session *session, const QUrl &ensemble, std::chrono::milliseconds timeout, DoctorReport *report);

} // namespace Cli
