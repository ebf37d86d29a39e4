// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// Arguments of annotated methods: views, pointers, containers of objects, variants, and what keys make of them.

#include "annotationtest.h"
#include "support/rows.h"
#include "typedreceiver.h"

#include <QtCore/qstringlistmodel.h>

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

using namespace Qt::StringLiterals;

using namespace AnnotationTesting;
using namespace LockTesting;
using namespace QDistLock;

namespace {

const QString Text = u"kept until then"_s; // longer than the buffer inside a std::string

/// Emits views of memory that is overwritten and freed at once.
void emitAll(Sender *sender)
{
    {
        QString text = Text;
        text.detach();
        Q_EMIT sender->text(text);
        Q_EMIT sender->anyText(text);
        Q_EMIT sender->utf16(reinterpret_cast<const char16_t *>(text.utf16()));
        text.fill(u'x');
    }
    {
        QByteArray bytes = Text.toUtf8();
        Q_EMIT sender->latin1(QLatin1String(bytes));
        Q_EMIT sender->utf8(QUtf8StringView(bytes.constData(), bytes.size()));
        Q_EMIT sender->bytes(bytes);
        Q_EMIT sender->standard(std::string_view(bytes.constData(), size_t(bytes.size())));
        Q_EMIT sender->cString(bytes.constData());
        bytes.fill('x');
    }
}

const QStringList AllKept(8, Text);

template<typename Target>
void connectAll(Sender *sender, Target *receiver)
{
    QVERIFY(connectLocked(sender, &Sender::text, receiver, &Receiver::text));
    QVERIFY(connectLocked(sender, &Sender::anyText, receiver, &Receiver::anyText));
    QVERIFY(connectLocked(sender, &Sender::latin1, receiver, &Receiver::latin1));
    QVERIFY(connectLocked(sender, &Sender::utf8, receiver, &Receiver::utf8));
    QVERIFY(connectLocked(sender, &Sender::bytes, receiver, &Receiver::bytes));
    QVERIFY(connectLocked(sender, &Sender::standard, receiver, &Receiver::standard));
    QVERIFY(connectLocked(sender, &Sender::cString, receiver, &Receiver::cString));
    QVERIFY(connectLocked(sender, &Sender::utf16, receiver, &Receiver::utf16));
}

} // namespace

class tst_CallArguments : public AnnotationTest
{
    Q_OBJECT

private Q_SLOTS:
    void viewsAreKept();
    void viewsAreKeptForAnotherThread();
    void viewsOfFunctionObjects();
    void viewsInKeys();
    void nullViews();
    void viewsInvoked();
    void argumentDestroyedOnTheWay();
    void variants();
    void objectsInContainersDestroyed_data();
    void objectsInContainersDestroyed();
    void objectInvokedInAContainer();
    void objectThatIsNotFirst();
    void modelIndexes();
    void functionPointers();
    void bytesThatAreNotText();
    void senderDestroyedOnTheWay();
    void argumentsThatTheSlotDoesNotTake();
    void keysOfFunctionObjects();
    void namesInErrors_data()
    {
        Support::addRows<QString>("name",
                                  {{"line feed", u"first\nsecond: forged"_s},
                                   {"escape sequence", u"red\x1b[31m"_s},
                                   {"NUL", u"a"_s + QChar(QChar::Null) + u"b"_s},
                                   {"long", QString(5000, u'a')},
                                   {"long path", u"{%1}"_s.arg(QString(5000, u'a'))},
                                   {"long property", u"{this.%1}"_s.arg(QString(5000, u'a'))}});
    }
    void namesInErrors();

private:
    /// Waits until the background thread has done what it was asked for before.
    bool settled()
    {
        return finished(withLock(u"other"_s, [] {}));
    }
};

static QList<int> numbersSeen;

static void seeNumber(int number)
{
    numbersSeen.append(number);
}
static void seeNumberNoexcept(int number) noexcept
{
    numbersSeen.append(number);
}

void tst_CallArguments::viewsAreKept()
{
    Sender sender;
    Receiver receiver;
    connectAll(&sender, &receiver);
    hold("lock:views");
    emitAll(&sender);
    letGo("lock:views");
    QVERIFY(eventually([&] { return receiver.seen.size() == AllKept.size(); }));
    QCOMPARE(receiver.seen, AllKept);
}

void tst_CallArguments::viewsAreKeptForAnotherThread()
{
    LoopThread other;
    other.block();
    Sender sender;
    auto receiver = std::make_unique<Receiver>();
    receiver->moveToThread(&other.thread);
    connectAll(&sender, receiver.get());
    emitAll(&sender);
    other.unblock();
    const auto seen = [&] {
        QStringList copy;
        other.call([&] { copy = receiver->seen; });
        return copy;
    };
    QVERIFY(eventually([&] { return seen().size() == AllKept.size(); }));
    QCOMPARE(seen(), AllKept);
    other.call([&] { receiver.reset(); });
    emitAll(&sender); // the connections went with the receiver
}

void tst_CallArguments::viewsOfFunctionObjects()
{
    Sender sender;
    QObject context;
    QStringList seen;
    QVERIFY(connectLocked(
            &sender, &Sender::text, &context, [&](QStringView text) { seen.append(text.toString()); }, u"views"_s,
            options()));
    QVERIFY(connectLocked(
            &sender, &Sender::cString, &context, [&](const QByteArray &text) { seen.append(QString::fromUtf8(text)); },
            u"views"_s, options()));
    QVERIFY(connectLocked(
            &sender, &Sender::standard, &context,
            [&](auto text) { seen.append(QString::fromUtf8(text.data(), qsizetype(text.size()))); }, u"views"_s,
            options()));
    hold("lock:views");
    emitAll(&sender);
    letGo("lock:views");
    QVERIFY(eventually([&] { return seen.size() == 3; }));
    QCOMPARE(seen, QStringList(3, Text));
}

void tst_CallArguments::viewsInKeys()
{
    Sender sender;
    Receiver receiver;
    const QString key = u"k:{value}"_s;
    QVERIFY(connectLocked(&sender, &Sender::text, &receiver, &Receiver::text, key, options()));
    QVERIFY(connectLocked(&sender, &Sender::anyText, &receiver, &Receiver::anyText, key, options()));
    QVERIFY(connectLocked(&sender, &Sender::latin1, &receiver, &Receiver::latin1, key, options()));
    QVERIFY(connectLocked(&sender, &Sender::utf8, &receiver, &Receiver::utf8, key, options()));
    QVERIFY(connectLocked(&sender, &Sender::bytes, &receiver, &Receiver::bytes, key, options()));
    QVERIFY(connectLocked(&sender, &Sender::standard, &receiver, &Receiver::standard, key, options()));
    QVERIFY(connectLocked(&sender, &Sender::cString, &receiver, &Receiver::cString, key, options()));
    const QByteArray name = "gr\xc3\xbc\xc3\x9f";
    const QString text = QString::fromUtf8(name);
    hold("lock:k:" + name);
    Q_EMIT sender.text(text);
    Q_EMIT sender.anyText(text);
    Q_EMIT sender.latin1(QLatin1String("gr\xfc\xdf"));
    Q_EMIT sender.utf8(QUtf8StringView(name.constData(), name.size()));
    Q_EMIT sender.bytes(name);
    Q_EMIT sender.standard(std::string_view(name.constData()));
    Q_EMIT sender.cString(name.constData());
    QVERIFY(settled());
    QCOMPARE(receiver.seen, QStringList()); // each of them waits for this one key
    letGo("lock:k:" + name);
    QVERIFY(eventually([&] { return receiver.seen.size() == 7; }));
    QCOMPARE(receiver.seen, QStringList(7, text));
}

void tst_CallArguments::nullViews()
{
    Sender sender;
    Receiver receiver;
    connectAll(&sender, &receiver);
    Q_EMIT sender.cString(nullptr);
    Q_EMIT sender.utf16(nullptr);
    Q_EMIT sender.text(QStringView());
    QVERIFY(eventually([&] { return receiver.seen.size() == 3; }));
    QCOMPARE(receiver.seen, (QStringList{u"(null)"_s, u"(null)"_s, QString()}));
}

void tst_CallArguments::viewsInvoked()
{
    Receiver receiver;
    hold("lock:views");
    QList<QFuture<QVariant>> calls;
    {
        QString text = Text;
        text.detach();
        QByteArray bytes = Text.toUtf8();
        calls << invokeLocked(&receiver, "text", QStringView(text)) << invokeLocked(&receiver, "text", text)
              << invokeLocked(&receiver, "anyText", QAnyStringView(text))
              << invokeLocked(&receiver, "utf8", QUtf8StringView(bytes.constData(), bytes.size()))
              << invokeLocked(&receiver, "text", QLatin1String(bytes))
              << invokeLocked(&receiver, "bytes", QByteArrayView(bytes)) << invokeLocked(&receiver, "bytes", bytes)
              << invokeLocked(&receiver, "standard", std::string_view(bytes.constData()))
              << invokeLocked(&receiver, "cString", bytes.constData());
        for (const QVariant &view :
             {QVariant::fromValue(QStringView(text)), QVariant::fromValue(QAnyStringView(text)),
              QVariant::fromValue(QByteArrayView(bytes)), QVariant::fromValue(QLatin1String(bytes)),
              QVariant::fromValue(std::string_view(bytes.constData())),
              QVariant::fromValue<const char *>(bytes.constData())}) {
            calls << invokeLocked(&receiver, "text", QVariantList{view});
        }
        text.fill(u'x');
        bytes.fill('x');
    }
    letGo("lock:views");
    for (const auto &call : std::as_const(calls)) {
        QVERIFY(finished(call));
        QCOMPARE(failureOf(call).errorString, QString());
    }
    QCOMPARE(receiver.seen, QStringList(calls.size(), Text));
}

void tst_CallArguments::argumentDestroyedOnTheWay()
{
    std::mutex mutex;
    QList<LockedCallInfo> failed;
    QObject context;
    const auto append = [&](const LockedCallInfo &info) {
        const std::lock_guard locker(mutex);
        failed.append(info);
    };
    connect(LockedCalls::instance(), &LockedCalls::failed, &context, append, Qt::DirectConnection);
    const auto failures = [&] {
        const std::lock_guard locker(mutex);
        return failed;
    };
    LoopThread other;
    other.block();
    Sender sender;
    auto receiver = std::make_unique<Receiver>();
    receiver->moveToThread(&other.thread);
    QVERIFY(connectLocked(&sender, &Sender::object, receiver.get(), &Receiver::object));
    auto argument = std::make_unique<QObject>();
    argument->setObjectName(u"destroyed"_s);
    QObject kept;
    kept.setObjectName(u"kept"_s);
    const LogCapture log;
    Q_EMIT sender.object(argument.get());
    Q_EMIT sender.object(&kept);
    argument.reset();
    other.unblock();
    const auto seen = [&] {
        QStringList copy;
        other.call([&] { copy = receiver->seen; });
        return copy;
    };
    QVERIFY(eventually([&] { return failures().size() == 1 && seen().size() == 1; }));
    QCOMPARE(seen(), QStringList{u"kept"_s});
    const LockedCallInfo call = failures().first();
    QCOMPARE(call.error, DistributedLock::CancelledError);
    QVERIFY2(call.errorString.startsWith(u"Receiver::object: an object among its arguments was destroyed"_s),
             qPrintable(call.errorString));
    QCOMPARE(log.count({call.errorString}), 1);
    other.call([&] { receiver.reset(); });
}

void tst_CallArguments::variants()
{
    // With a view in it, and with a pointer to an object.
    QSignalSpy failed(LockedCalls::instance(), &LockedCalls::failed);
    Sender sender;
    QObject context;
    QVariantList seen;
    QVERIFY(connectLocked(
            &sender, &Sender::variant, &context, [&](const QVariant &value) { seen.append(value); }, u"views"_s,
            options()));
    auto argument = std::make_unique<QObject>();
    const LogCapture log;
    hold("lock:views");
    {
        QString text = Text;
        text.detach();
        Q_EMIT sender.variant(QVariant::fromValue(QStringView(text)));
        text.fill(u'x');
    }
    Q_EMIT sender.variant(QVariant::fromValue(argument.get()));
    Q_EMIT sender.variant(QVariant::fromValue(&sender));
    argument.reset();
    letGo("lock:views");
    QVERIFY(eventually([&] { return seen.size() == 2 && failed.size() == 1; }));
    QCOMPARE(seen.at(0), QVariant(Text));
    QCOMPARE(seen.at(1).value<Sender *>(), &sender);
    QCOMPARE(failed.first().first().value<LockedCallInfo>().error, DistributedLock::CancelledError);
}

void tst_CallArguments::objectsInContainersDestroyed_data()
{
    using Connect = std::function<QMetaObject::Connection(Sender *, Receiver *)>;
    using Emit = std::function<void(Sender *, QObject *)>;
    Support::addColumns<Connect, Emit>("makeConnection", "send");
    const auto row = [](const char *name, auto signal, auto slot, Emit send) {
        const Connect connect = [=](Sender *sender, Receiver *receiver) {
            return connectLocked(sender, signal, receiver, slot);
        };
        QTest::newRow(name) << connect << send;
    };
    row("hash", &Sender::hash, &Receiver::hash, [](Sender *sender, QObject *object) {
        Q_EMIT sender->hash({{u"a"_s, object}});
    });
    row("nested", &Sender::sets, &Receiver::sets, [](Sender *sender, QObject *object) {
        Q_EMIT sender->sets({{1, {{object}}}});
    });
    row("keys", &Sender::keys, &Receiver::keys, [](Sender *sender, QObject *object) {
        Q_EMIT sender->keys({{object, 1}});
    });
    row("variants", &Sender::variants, &Receiver::variantHash, [](Sender *sender, QObject *object) {
        Q_EMIT sender->variants({{u"a"_s, QVariant::fromValue(object)}});
    });
}

void tst_CallArguments::objectsInContainersDestroyed()
{
    QFETCH(std::function<QMetaObject::Connection(Sender *, Receiver *)>, makeConnection);
    QFETCH(std::function<void(Sender *, QObject *)>, send);
    QSignalSpy failed(LockedCalls::instance(), &LockedCalls::failed);
    Sender sender;
    Receiver receiver;
    QVERIFY(makeConnection(&sender, &receiver));
    auto argument = std::make_unique<QObject>();
    QObject kept;
    kept.setObjectName(u"kept"_s);
    const LogCapture log;
    hold("lock:objects");
    send(&sender, argument.get());
    send(&sender, &kept);
    argument.reset();
    letGo("lock:objects");
    QVERIFY(eventually([&] { return receiver.seen.size() + failed.size() == 2; }));
    QCOMPARE(receiver.seen, QStringList{u"kept"_s});
    QCOMPARE(failed.first().first().value<LockedCallInfo>().error, DistributedLock::CancelledError);
}

void tst_CallArguments::objectInvokedInAContainer()
{
    Receiver receiver;
    auto argument = std::make_unique<QObject>();
    const LogCapture log;
    hold("lock:objects");
    const auto call = invokeLocked(&receiver, "hash", ObjectHash{{u"a"_s, argument.get()}});
    argument.reset();
    letGo("lock:objects");
    QVERIFY(finished(call));
    QCOMPARE(failureOf(call).error, DistributedLock::CancelledError);
    QCOMPARE(receiver.seen, QStringList());
}

void tst_CallArguments::objectThatIsNotFirst()
{
    QSignalSpy failed(LockedCalls::instance(), &LockedCalls::failed);
    Sender sender;
    Receiver receiver;
    QVERIFY(connectLocked(&sender, &Sender::notFirst, &receiver, &Receiver::notFirst));
    auto argument = std::make_unique<NotFirst>();
    NotFirst kept;
    kept.setObjectName(u"kept"_s);
    const LogCapture log;
    hold("lock:object:kept");
    Q_EMIT sender.notFirst(argument.get());
    Q_EMIT sender.notFirst(&kept);
    argument.reset();
    QVERIFY(settled());
    QCOMPARE(receiver.seen, QStringList());
    letGo("lock:object:kept");
    QVERIFY(eventually([&] { return receiver.seen.size() + failed.size() == 2; }));
    QCOMPARE(receiver.seen, QStringList{u"kept"_s});
}

void tst_CallArguments::modelIndexes()
{
    Sender sender;
    Receiver receiver;
    QVERIFY(connectLocked(&sender, &Sender::index, &receiver, &Receiver::index));
    QStringListModel model({u"a"_s, u"b"_s, u"c"_s});
    hold("lock:index");
    Q_EMIT sender.index(model.index(1));
    Q_EMIT sender.index(model.index(2));
    const auto call = invokeLocked(&receiver, "index", model.index(2));
    QVERIFY(model.removeRows(0, 2)); // removes "b"; "c" has another row now
    letGo("lock:index");
    QVERIFY(finished(call));
    QCOMPARE(failureOf(call).errorString, QString());
    QCOMPARE(receiver.seen, (QStringList{QString(), u"c"_s, u"c"_s}));
}

void tst_CallArguments::functionPointers()
{
    numbersSeen.clear();
    Sender sender;
    QObject context;
    QVERIFY(connectLocked(&sender, &Sender::number, &context, seeNumber, u"number:{1}"_s));
    QVERIFY(connectLocked(&sender, &Sender::number, &context, &seeNumberNoexcept, u"number:{1}"_s));
    Q_EMIT sender.number(7);
    QVERIFY(eventually([&] { return numbersSeen.size() == 2; }));
    QCOMPARE(numbersSeen, (QList<int>{7, 7}));
}

void tst_CallArguments::bytesThatAreNotText()
{
    // Two of them would become one text, and have one key.
    Receiver receiver;
    const LogCapture log;
    const QByteArray bytes("\xff\xfe");
    const auto asText = invokeLocked(&receiver, "text", bytes);
    const auto asBytes = invokeLocked(&receiver, "byteArray", QString(QChar(0xd800)));
    QVERIFY(finished(asText) && finished(asBytes));
    QCOMPARE(failureOf(asText).error, DistributedLock::OptionsError);
    QCOMPARE(failureOf(asBytes).error, DistributedLock::OptionsError);
    QCOMPARE(receiver.seen, QStringList());
    for (const auto &call : {invokeLocked(&receiver, "byteArray", bytes.constData()),
                             invokeLocked(&receiver, "byteArray", std::string_view(bytes.constData())),
                             invokeLocked(&receiver, "byteArray", QUtf8StringView(bytes.constData(), bytes.size()))}) {
        QVERIFY(finished(call));
        QCOMPARE(failureOf(call).errorString, QString());
        QCOMPARE(call.result().toByteArray(), bytes);
    }
}

void tst_CallArguments::senderDestroyedOnTheWay()
{
    // An emission runs even if its sender or connection is destroyed before it arrives in the receiver's thread.
    LoopThread other;
    other.block();
    auto receiver = std::make_unique<Receiver>();
    receiver->moveToThread(&other.thread);
    auto sender = std::make_unique<Sender>();
    Sender disconnected;
    QVERIFY(connectLocked(sender.get(), &Sender::text, receiver.get(), &Receiver::text));
    const auto connection = connectLocked(&disconnected, &Sender::text, receiver.get(), &Receiver::text);
    Q_EMIT sender->text(u"first");
    Q_EMIT disconnected.text(u"second");
    sender.reset();
    QObject::disconnect(connection);
    Q_EMIT disconnected.text(u"third");
    other.unblock();
    const auto seen = [&] {
        QStringList copy;
        other.call([&] { copy = receiver->seen; });
        return copy;
    };
    QVERIFY(eventually([&] { return seen().size() == 2; }));
    QCOMPARE(seen(), (QStringList{u"first"_s, u"second"_s}));
    other.call([&] { receiver.reset(); });
}

void tst_CallArguments::argumentsThatTheSlotDoesNotTake()
{
    // A pointer to anything is refused at compile time only where it would have to be kept.
    Sender sender;
    QObject context;
    int calls = 0;
    QVERIFY(connectLocked(
            &sender, &Sender::unused, &context, [&] { ++calls; }, u"unused"_s));
    Q_EMIT sender.unused(&calls, 1);
    QVERIFY(eventually([&] { return calls == 1; }));
}

void tst_CallArguments::keysOfFunctionObjects()
{
    Sender sender;
    Receiver receiver;
    const LogCapture log;
    QVERIFY(!connectLocked(
            &sender, &Sender::number, &receiver, [](int id) { Q_UNUSED(id) }, u"k:{id}"_s));
    QCOMPARE(log.messages(),
             QStringList{u"connectLocked(): Receiver: key \"k:{id}\": key, {id}: there is no parameter \"id\": "
                         "the names of parameters are known only of methods with QDL_LOCKED_METHOD(); "
                         "write {1} for the first one; nothing was connected"_s});
}

void tst_CallArguments::namesInErrors()
{
    // From QML and configuration any text at all can come.
    QFETCH(QString, name);
    Sender sender;
    Receiver receiver;
    const LogCapture log;
    const auto call = invokeLocked(&receiver, name.toUtf8().constData());
    const auto ofNull = invokeLocked(nullptr, name.toUtf8().constData());
    connectLocked(&sender, &Sender::number, &receiver, &Receiver::slow, name + u'{');
    connectLocked(&sender, &Sender::number, &receiver, &Receiver::slow, name);
    connectLocked(&sender, &Sender::number, &receiver, &Receiver::slow, u"k"_s, name);
    connectLocked(&sender, &Sender::number, &receiver, &Receiver::slow, u"k"_s, name + u'=');
    connectLocked(&sender, &Sender::number, &receiver, &Receiver::slow, u"k"_s, u"condition="_s + name);
    connectLocked(&sender, &Sender::number, &receiver, &Receiver::slow, u"k"_s, u"condition=this."_s + name);
    QVERIFY(finished(call) && finished(ofNull));
    QStringList texts = log.messages();
    QVERIFY2(texts.size() >= 7, qPrintable(log.text()));
    texts << failureOf(call).errorString << failureOf(ofNull).errorString;
    for (const QString &text : std::as_const(texts)) {
        QVERIFY(!text.isEmpty());
        QVERIFY2(all(text, [](QChar c) { return c.unicode() >= 0x20; }), qPrintable(text));
        QVERIFY2(text.size() < 1500, qPrintable(text));
    }
}

QTEST_GUILESS_MAIN(tst_CallArguments)

#include "tst_callarguments.moc"
