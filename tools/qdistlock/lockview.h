// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QDistLock/LockInfo>

#include <QtCore/qjsonobject.h>
#include <QtCore/qlist.h>
#include <QtCore/qstring.h>

/// Locks, as `ls`, `show` and `watch` print them. docs/qdistlock.schema.json describes the JSON.
namespace Cli {

/// The time until the lease ends: "4m 10s", "12s", "3.2s", "no end".
QString remainingText(const QDistLock::LockInfo &info);
/// A text of the library to which something is added: without its full stop.
QString withoutStop(QString text);
/// "1 connection", "3 connections": \a what is the plural, which ends with an s.
QString counted(qint64 number, const QString &what);
/// A time for people: "1h 5m", "4m 10s", "12s", "3.2s", "0.25s".
QString roughText(std::chrono::milliseconds time);

/// The holder cannot release it any more, or it has no time to live.
bool isStale(const QDistLock::LockInfo &info);

QJsonObject toJson(const QDistLock::LockClient &client);
QJsonObject toJson(const QDistLock::LockInfo &info);
QJsonObject toJson(const QDistLock::LockWaiter &waiter);

} // namespace Cli
