// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QtCore/qobject.h>
#include <QtCore/qstring.h>
#include <QtQml/qqml.h>

namespace QDistLock {

/*!
    The properties of LockedAction that describe its run. They must change together: properties declared in QML would
    notify one by one, and a handler of the first would see old values of the others. set() changes all of them before
    it emits the first signal.
*/
class LockedActionStatus : public QObject
{
    Q_OBJECT
    QML_ELEMENT
    /// The opposite of `running`; its signal is emitted first.
    Q_PROPERTY(bool idle READ isIdle NOTIFY idleChanged FINAL)
    Q_PROPERTY(bool running READ isRunning NOTIFY runningChanged FINAL)
    /// A LockedAction.State.
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

    /// May end with this object destroyed: the signals run handlers of the application.
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
