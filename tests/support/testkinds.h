// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "machinewatch.h"

#include <QtCore/qcoreapplication.h>
#include <QtCore/qmetaobject.h>
#include <QtTest/qtest.h>

#include <cstdio>
#include <functional>
#include <memory>

/*!
    The kinds of tests. A function without a tag is an ordinary one: what happened, and in which order, decides, however
    long it took, so it may run beside anything and under sanitizers.

        private Q_SLOTS:
            void excludesOthers();
            TIMING void lostBeforeTheLeaseEnds();
            PROOF void thousandRounds();

    A file with tags ends in QDISTLOCK_TEST_MAIN. CMake finds the tags: of tst_x, it makes the tests tst_x,
    tst_x_timing and tst_x_proof. See docs/testing.md.
*/
#ifndef Q_MOC_RUN
/// How long something took decides. Runs alone, in optimised builds only, and is repeated if the machine paused.
#  define TIMING
/// Statistics or many minutes decide. Runs in the proof only.
#  define PROOF
#endif

namespace Support {

/// How long the machine may pause before the failure of a TIMING function is no verdict, and the function is repeated.
/// A function that allows more than 10 ms calls leavesRoomFor() at its beginning.
inline std::chrono::milliseconds &pauseRoom()
{
    static std::chrono::milliseconds room;
    return room;
}

inline void leavesRoomFor(std::chrono::milliseconds pause)
{
    pauseRoom() = pause;
}

namespace Detail {

using CreateTest = std::function<std::unique_ptr<QObject>()>;

/// The names of the functions with this tag; all names, if no function has any tag.
inline QStringList functionsOfKind(const QMetaObject &metaObject, QByteArrayView tag)
{
    QStringList found;
    QStringList all;
    bool tagged = false;
    for (int i = QObject::staticMetaObject.methodCount(); i < metaObject.methodCount(); ++i) {
        const QMetaMethod method = metaObject.method(i);
        const QByteArray name = method.name();
        if (method.methodType() != QMetaMethod::Slot || method.access() != QMetaMethod::Private
            || method.parameterCount() > 0 || name.endsWith("_data") || name == "initTestCase"
            || name == "cleanupTestCase" || name == "init" || name == "cleanup") {
            continue;
        }
        const QByteArrayView own = method.tag();
        if (!own.isEmpty() && own != "TIMING" && own != "PROOF")
            qFatal("%s::%s() would run nowhere: %s", metaObject.className(), name.constData(), method.tag());
        all.append(QString::fromLatin1(name));
        tagged = tagged || !own.isEmpty();
        if (tag == own)
            found.append(all.constLast());
    }
    return tagged ? found : all;
}

/// Runs one TIMING function. If it fails and the machine paused meanwhile, runs it again, up to three times.
inline int runTimed(const CreateTest &create, const QStringList &arguments, const QString &function)
{
    constexpr int MaxAttempts = 4;
    MachineWatch watch;
    for (int attempt = 1;; ++attempt) {
        pauseRoom() = std::chrono::milliseconds(10);
        watch.reset();
        const int failures = QTest::qExec(create().get(), arguments + QStringList(function));
        if (failures == 0)
            return 0;
        const std::chrono::milliseconds pause = watch.longestPause();
        if (pause <= pauseRoom()) {
            std::printf("%s failed, and the machine never paused for longer than %d ms\n", qPrintable(function),
                        int(pause.count()));
            return failures;
        }
        const bool isLast = attempt == MaxAttempts;
        const QByteArray name = isLast ? "SKIPPED BY THE MACHINE: " + function.toLatin1() : function.toLatin1();
        std::printf("%s: the machine paused for %d ms%s\n", name.constData(), int(pause.count()),
                    isLast ? " in the last attempt, too" : "; again"); // tools/test looks for these lines
        std::fflush(stdout);
        if (isLast)
            return 0;
    }
}

inline int runTests(const QMetaObject &metaObject, const CreateTest &create, QStringList arguments)
{
    QByteArray kind;
    if (arguments.size() > 1 && arguments.at(1).startsWith(u"--"))
        kind = arguments.takeAt(1).mid(2).toUpper().toLatin1();
    if (kind.isEmpty()) // by hand
        return QTest::qExec(create().get(), arguments);
    const QStringList functions = functionsOfKind(metaObject, kind == "ORDINARY" ? QByteArray() : kind);
    if (functions.isEmpty())
        qFatal("%s: no function is of the kind %s", metaObject.className(), kind.constData());
    if (kind != "TIMING")
        return QTest::qExec(create().get(), arguments + functions);
    bool failed = false;
    for (const QString &function : functions)
        failed = runTimed(create, arguments, function) > 0 || failed;
    return failed ? 1 : 0;
}

} // namespace Detail

/*!
    Runs the functions of \a Test.

    Arguments: those of QTest::qExec(). With --ordinary, --timing or --proof before them: the functions of that kind.
    There must be an application object.
*/
template<typename Test>
int runTests()
{
    return Detail::runTests(
            Test::staticMetaObject, [] { return std::make_unique<Test>(); }, QCoreApplication::arguments());
}

} // namespace Support

/// main() of a test whose functions may have tags. \a Application: QCoreApplication, for instance.
#define QDISTLOCK_TEST_MAIN(Application, Test) \
  int main(int argc, char **argv) \
  { \
    Application application(argc, argv); \
    return Support::runTests<Test>(); \
  }
