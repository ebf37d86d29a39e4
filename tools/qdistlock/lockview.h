// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QDistLock/LockInfo>

#include <QtCore/qjsonobject.h>
#include <QtCore/qlist.h>
#include <QtCore/qstring.h>

/// Locks, as `ls`, `show` and `watch` print them. docs/qdistlock.schema.json describes the JSON.
namespace Cli {

/// Who holds the lock: "nightly on db7, pid 812", "client 1f…" if nothing else is known, "client 1f… (not connected)",
/// "another library"; "nobody". If several hold it, the one whose lease ends first: "3 readers, among them nightly on
/// db7, pid 812", "the reader nightly on db7, pid 812", "the holders of 4 of 5 permits, among them nightly on db7, pid
/// 812", "the holder of 2 of 5 permits, nightly on db7, pid 812".
QString holderText(const QDistLock::LockInfo &info);
/// The time until the lease ends: "4m 10s", "12s", "3.2s", "no end".
QString remainingText(const QDistLock::LockInfo &info);
/// A text of the library to which something is added: without its full stop.
QString withoutStop(QString text);
/// "1 connection", "3 connections": \a what is the plural, which ends with an s.
QString counted(qint64 number, const QString &what);
/// A time for people: "1h 5m", "4m 10s", "12s", "3.2s", "0.25s".
QString roughText(std::chrono::milliseconds time);

/// Its holders have permits.
bool areOfPermits(const QDistLock::LockInfo &info);
/// LockInfo::holders may not be all of them.
bool mayHaveMoreHolders(const QDistLock::LockInfo &info);

/// False if its client is known to be gone, or all that hold it together; the lock then ends with its lease. True for
/// holders of other libraries, of which nobody knows.
bool isHolderConnected(const QDistLock::LockInfo &info);
/// The holder cannot release it any more, or it has no time to live.
bool isStale(const QDistLock::LockInfo &info);

QJsonObject toJson(const QDistLock::LockInfo &info);
QJsonObject toJson(const QDistLock::LockWaiter &waiter);

} // namespace Cli
