// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// Which operations share a command.

#include "engine/redis/commandbatch.h"

#include <QtTest/qtest.h>

using namespace Qt::StringLiterals;

using namespace QDistLock;
using namespace std::chrono_literals;

namespace {

struct Wanted
{
    LockOperation::Kind kind;
    int slot;
    QString name;
};

/// The names of the locks in each command.
QStringList split(const QList<Wanted> &wanted)
{
    LockOperations operations;
    for (const Wanted &one : wanted) {
        QString error;
        LockOperation operation{one.kind, *LockId::make(u"lock:"_s, one.name, &error), "token", 30s, nullptr};
        operation.slot = one.slot;
        operations.push_back(operation);
    }
    QStringList commands;
    CommandBatch::split(std::move(operations), [&](const LockOperations &batch, std::chrono::milliseconds) {
        QStringList names;
        for (const LockOperation &operation : batch)
            names.append(QString::fromUtf8(operation.lock.name()));
        commands.append(names.join(u' '));
    });
    return commands;
}

} // namespace

class tst_CommandBatch : public QObject
{
    Q_OBJECT
private Q_SLOTS:
    void renewalsOfOneSlotShareACommand();
    void theOrderOfOthersIsKept();
};

void tst_CommandBatch::renewalsOfOneSlotShareACommand()
{
    constexpr auto Renew = LockOperation::Renew;
    QCOMPARE(split({{Renew, 2, u"a"_s}, {Renew, 1, u"b"_s}, {Renew, 2, u"c"_s}, {Renew, 1, u"d"_s}}),
             (QStringList{u"b d"_s, u"a c"_s}));
    QCOMPARE(split({{Renew, -1, u"b"_s}, {Renew, -1, u"a"_s}}), QStringList{u"b a"_s}); // no cluster
}

void tst_CommandBatch::theOrderOfOthersIsKept()
{
    constexpr auto Renew = LockOperation::Renew;
    constexpr auto Release = LockOperation::Release;
    QCOMPARE(split({{Release, 2, u"a"_s}, {Release, 1, u"b"_s}, {Release, 2, u"c"_s}}),
             (QStringList{u"a"_s, u"b"_s, u"c"_s}));
    QCOMPARE(split({{Renew, 2, u"a"_s}, {Release, 1, u"b"_s}, {Renew, 1, u"c"_s}}),
             (QStringList{u"a"_s, u"b"_s, u"c"_s}));
}

QTEST_APPLESS_MAIN(tst_CommandBatch)
#include "tst_commandbatch.moc"
