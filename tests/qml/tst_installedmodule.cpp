// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include <QtCore/qdir.h>
#include <QtCore/qdiriterator.h>
#include <QtCore/qprocess.h>
#include <QtCore/qset.h>
#include <QtCore/qtemporarydir.h>
#include <QtTest/qtest.h>

/// The module as it is installed, without anything of the build tree.
class TestInstalledModule : public QObject
{
    Q_OBJECT

private Q_SLOTS:
    void initTestCase();
    void filesAreThere();
    void noBuildPathInside();
    void loadsInAWindow();
    void lints();

private:
    bool run(const QString &program, const QStringList &arguments, bool findModule = false);
    QString moduleDir() const
    {
        return m_prefix.path() + QStringLiteral("/" INSTALL_QMLDIR "/QDistLock");
    }

    QTemporaryDir m_prefix;
    QByteArray m_output;
};

bool TestInstalledModule::run(const QString &program, const QStringList &arguments, bool findModule)
{
    QProcess process;
    QProcessEnvironment environment = QProcessEnvironment::systemEnvironment();
    environment.remove(QStringLiteral("LD_LIBRARY_PATH"));
    environment.remove(QStringLiteral("QML2_IMPORT_PATH"));
    environment.remove(QStringLiteral("QML_IMPORT_PATH"));
    environment.remove(QStringLiteral("DESTDIR"));
    environment.insert(QStringLiteral("QT_QPA_PLATFORM"), QStringLiteral("offscreen"));
    if (findModule)
        environment.insert(QStringLiteral("QML_IMPORT_PATH"),
                           m_prefix.path() + QStringLiteral("/" INSTALL_QMLDIR));
    process.setProcessEnvironment(environment);
    process.setProcessChannelMode(QProcess::MergedChannels);
    process.start(program, arguments);
    const bool finished = process.waitForFinished(60000);
    m_output = process.readAll();
    if (finished && process.exitStatus() == QProcess::NormalExit && process.exitCode() == 0)
        return true;
    qWarning().noquote() << program << arguments << "failed:" << process.errorString() << m_output;
    return false;
}

void TestInstalledModule::initTestCase()
{
    QVERIFY(m_prefix.isValid());
    QVERIFY(run(QStringLiteral(CMAKE_PROGRAM),
                {QStringLiteral("--install"), QStringLiteral(BUILD_DIR), QStringLiteral("--prefix"),
                 m_prefix.path()}));
}

void TestInstalledModule::filesAreThere()
{
    const QStringList files = QDir(moduleDir()).entryList(QDir::Files, QDir::Name);
    for (const char *name : {"LockStatus.qml", "LockBadge.qml", "LockedAction.qml", "qmldir", "QDistLockQml.qmltypes"})
        QVERIFY2(files.contains(QLatin1String(name)), name);
    QVERIFY2(files.filter(QStringLiteral("QDistLockQmlplugin")).size() == 1,
             qPrintable(files.join(QLatin1Char(' '))));
}

void TestInstalledModule::noBuildPathInside()
{
    QDirIterator it(m_prefix.path(), QDir::Files, QDirIterator::Subdirectories);
    int libraries = 0;
    while (it.hasNext()) {
        QFile file(it.next());
        const bool library = file.fileName().contains(QLatin1String(".so"));
        libraries += library;
        if (library) {
            // Debug information may name sources, the dynamic section no folder of the build.
            QVERIFY(run(QStringLiteral(READELF_PROGRAM), {QStringLiteral("-d"), file.fileName()}));
        } else {
            QVERIFY(file.open(QIODevice::ReadOnly));
            m_output = file.readAll();
        }
        QVERIFY2(!m_output.contains(BUILD_DIR), qPrintable(file.fileName()));
    }
    QVERIFY(libraries >= 3);
}

void TestInstalledModule::loadsInAWindow()
{
    QFile qml(m_prefix.filePath(QStringLiteral("window.qml")));
    QVERIFY(qml.open(QIODevice::WriteOnly));
    qml.write(
            "import QtQuick\n"
            "import QDistLock\n"
            "Window {\n"
            "    property bool done: lock.held && status.phase === 'held'\n"
            "    visible: true\n"
            "    DistributedLock { id: lock; name: 'installed'; server: 'memory:'; active: true }\n"
            "    LockStatus { id: status; lock: lock }\n"
            "}\n");
    qml.close();
    QVERIFY(run(QStringLiteral(INSTALLED_MODULE), {qml.fileName()}, true));
    QSet<QByteArray> libraries;
    const QList<QByteArray> lines = m_output.split('\n');
    for (const QByteArray &line : lines) {
        if (!line.startsWith('/'))
            continue;
        QVERIFY2(line.startsWith(QFile::encodeName(m_prefix.path()) + '/'), line.constData());
        libraries.insert(line);
    }
    QCOMPARE(libraries.size(), 3); // Core, Qml and the plugin
}

void TestInstalledModule::lints()
{
    QVERIFY(run(QStringLiteral(QMLLINT_PROGRAM),
                {QStringLiteral("-I"), m_prefix.path() + QStringLiteral("/" INSTALL_QMLDIR),
                 QStringLiteral(EXAMPLE_DIR "/ClientCard.qml")}));
    QVERIFY2(m_output.isEmpty(), m_output.constData());
}

QTEST_GUILESS_MAIN(TestInstalledModule)

#include "tst_installedmodule.moc"
