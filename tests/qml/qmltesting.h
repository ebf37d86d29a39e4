// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "support/redisserver.h"

#include <QDistLock/DistributedLock>

#include <QtCore/qdebug.h>
#include <QtCore/qjsondocument.h>
#include <QtCore/qjsonobject.h>
#include <QtCore/qpointer.h>
#include <QtCore/qstringlist.h>
#include <QtCore/qurl.h>
#include <QtQml/qqmlcomponent.h>
#include <QtQml/qqmlcontext.h>
#include <QtQml/qqmlengine.h>
#include <QtQml/qqmlerror.h>

#include <memory>

namespace QmlTesting {

/// The time-out in milliseconds for what happens much sooner, except on an overloaded machine.
constexpr int Patience = 60000;

/// The wait of locks whose wait is not the subject, as QML.
constexpr auto LongWait = "wait: 60000";

/// Ends the connections of all clients of \a server. They connect again, and ask at once whether they still hold their
/// locks, which they would do otherwise when a third of the lease has passed.
inline void reconnectAll(Support::RedisServer &server)
{
    server.command({"CLIENT", "KILL", "TYPE", "normal"}); // not the connection that asks for it
}

/// Returns an engine that finds the QDistLock module of the build tree, and appends its warnings to \a warnings.
template<typename Engine = QQmlEngine>
std::unique_ptr<Engine> makeEngine(QStringList *warnings)
{
    auto engine = std::make_unique<Engine>();
    engine->addImportPath(QStringLiteral(QML_MODULE_DIR));
    QObject::connect(engine.get(), &QQmlEngine::warnings, engine.get(), [warnings](const QList<QQmlError> &errors) {
        for (const QQmlError &error : errors)
            warnings->append(error.toString());
    });
    return engine;
}

/// DistributedLock { name: "job" } in QML, with these properties. Null after an error, which is logged.
inline std::unique_ptr<QDistLock::DistributedLock> createLock(QQmlEngine *engine, const QString &server,
                                                              const QByteArray &properties)
{
    QQmlComponent component(engine);
    component.setData("import QtQml\nimport QDistLock\nDistributedLock { name: \"job\"; server: \"" + server.toUtf8()
                              + "\"; " + properties + " }",
                      QUrl());
    std::unique_ptr<QObject> root(component.create());
    if (!root)
        qWarning().noquote() << component.errorString();
    return std::unique_ptr<QDistLock::DistributedLock>(qobject_cast<QDistLock::DistributedLock *>(root.release()));
}

/// One component in a separate engine.
class Scene
{
public:
    explicit Scene(const QByteArray &qml, bool complete = true)
    {
        m_engine->addImportPath(QStringLiteral(QML_MODULE_DIR));
        m_component = std::make_unique<QQmlComponent>(m_engine.get());
        m_component->setData("import QtQml\nimport QDistLock\n" + qml, QUrl());
        m_root.reset(complete ? m_component->create() : m_component->beginCreate(m_engine->rootContext()));
        if (!m_root)
            qWarning().noquote() << m_component->errorString();
    }

    void complete() { m_component->completeCreate(); }
    void destroyEngine()
    {
        m_root.release(); // the engine destroys it
        m_engine.reset();
    }

    QObject *root() const { return m_root.get(); }
    QDistLock::DistributedLock *lock() const
    {
        if (auto *lock = qobject_cast<QDistLock::DistributedLock *>(m_root.get()))
            return lock;
        return m_root ? m_root->property("lock").value<QDistLock::DistributedLock *>() : nullptr;
    }
    /// Calls a method of the lock. The result of its promise appears in answer().
    void call(const char *function)
    {
        m_root->setProperty("answer", QString());
        QMetaObject::invokeMethod(m_root.get(), function);
    }
    QString answer() const { return m_root->property("answer").toString(); }
    QJsonObject result() const { return QJsonDocument::fromJson(answer().toUtf8()).object(); }

private:
    std::unique_ptr<QQmlEngine> m_engine = std::make_unique<QQmlEngine>();
    std::unique_ptr<QQmlComponent> m_component;
    std::unique_ptr<QObject> m_root;
};

/// Deletes an object from inside its own signal. Needs `#include "moc_qmltesting.cpp"`.
class Deleter : public QObject
{
    Q_OBJECT

public:
    explicit Deleter(QObject *doomed)
        : m_doomed(doomed)
    {
    }

public Q_SLOTS:
    void deleteIt() { delete m_doomed; }

private:
    QPointer<QObject> m_doomed;
};

} // namespace QmlTesting
