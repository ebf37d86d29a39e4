// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QtCore/qobject.h>
#include <QtCore/qstring.h>
#include <QtQml/qqml.h>

namespace QDistLock {

/*!
    A part of LockedAction: the properties that describe its run. A property of QML notifies as soon as it is set, so that
    its handlers see old values of the others. Here all of them change before the first one notifies.
*/
class LockedActionStatus : public QObject
{
    Q_OBJECT
    QML_ELEMENT
    /// Not running; notifies before the others.
    Q_PROPERTY(bool idle READ isIdle NOTIFY idleChanged FINAL)
    Q_PROPERTY(bool running READ isRunning NOTIFY runningChanged FINAL)
    /// LockedAction.State
    Q_PROPERTY(int state READ state NOTIFY stateChanged FINAL)
    Q_PROPERTY(int error READ error NOTIFY errorChanged FINAL)
    Q_PROPERTY(QString errorString READ errorString NOTIFY errorStringChanged FINAL)

public:
    using QObject::QObject;

    bool isIdle() const { return m_state == 0; }
    bool isRunning() const { return m_state != 0; }
    int state() const { return m_state; }
    int error() const { return m_error; }
    QString errorString() const { return m_errorString; }

    /// May destroy this object: its signals call handlers of the application.
    Q_INVOKABLE void set(int state, int error, const QString &errorString);

Q_SIGNALS:
    void idleChanged();
    void runningChanged();
    void stateChanged();
    void errorChanged();
    void errorStringChanged();

private:
    int m_state = 0;
    int m_error = 0;
    QString m_errorString;
};

} // namespace QDistLock
