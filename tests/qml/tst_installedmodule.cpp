// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include <QtCore/qdir.h>
#include <QtCore/qdiriterator.h>
#include <QtCore/qprocess.h>
#include <QtCore/qset.h>
#include <QtCore/qtemporarydir.h>
#include <QtTest/qtest.h>

using namespace Qt::StringLiterals;

/// Uses the QML module as it is installed, with nothing from the build tree.
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
    QString moduleDir() const { return m_prefix.path() + QStringLiteral("/" INSTALL_QMLDIR "/QDistLock"); }

    QTemporaryDir m_prefix;
    QByteArray m_output;
};

bool TestInstalledModule::run(const QString &program, const QStringList &arguments, bool findModule)
{
    QProcess process;
    QProcessEnvironment environment = QProcessEnvironment::systemEnvironment();
    environment.remove(u"LD_LIBRARY_PATH"_s);
    environment.remove(u"QML2_IMPORT_PATH"_s);
    environment.remove(u"QML_IMPORT_PATH"_s);
    environment.remove(u"DESTDIR"_s);
    environment.insert(u"QT_QPA_PLATFORM"_s, u"offscreen"_s);
    if (findModule)
        environment.insert(u"QML_IMPORT_PATH"_s, m_prefix.path() + QStringLiteral("/" INSTALL_QMLDIR));
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
                {u"--install"_s, QStringLiteral(BUILD_DIR), u"--prefix"_s, m_prefix.path()}));
}

void TestInstalledModule::filesAreThere()
{
    const QStringList files = QDir(moduleDir()).entryList(QDir::Files, QDir::Name);
    for (const char *name : {"LockStatus.qml", "LockBadge.qml", "LockedAction.qml", "qmldir", "QDistLockQml.qmltypes"})
        QVERIFY2(files.contains(QLatin1String(name)), name);
    QVERIFY2(files.filter(u"QDistLockQmlplugin"_s).size() == 1, qPrintable(files.join(QLatin1Char(' '))));
}

void TestInstalledModule::noBuildPathInside()
{
    QDirIterator it(m_prefix.path(), QDir::Files, QDirIterator::Subdirectories);
    int libraries = 0;
    while (it.hasNext()) {
        QFile file(it.next());
        libraries += file.fileName().contains(QLatin1String(".so"));
        QVERIFY(file.open(QIODevice::ReadOnly));
        if (file.peek(4) == "\177ELF") {
            // Debug information may name source files, but the dynamic section must name no folder of the build.
            QVERIFY(run(QStringLiteral(READELF_PROGRAM), {u"-d"_s, file.fileName()}));
        } else {
            m_output = file.readAll();
        }
        QVERIFY2(!m_output.contains(BUILD_DIR), qPrintable(file.fileName()));
    }
    QVERIFY(libraries >= 3);
}

void TestInstalledModule::loadsInAWindow()
{
    QFile qml(m_prefix.filePath(u"window.qml"_s));
    QVERIFY(qml.open(QIODevice::WriteOnly));
    qml.write("import QtQuick\n"
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
                {u"-I"_s, m_prefix.path() + QStringLiteral("/" INSTALL_QMLDIR),
                 QStringLiteral(EXAMPLE_DIR "/ClientCard.qml")}));
    QVERIFY2(m_output.isEmpty(), m_output.constData());
}

QTEST_GUILESS_MAIN(TestInstalledModule)

#include "tst_installedmodule.moc"
