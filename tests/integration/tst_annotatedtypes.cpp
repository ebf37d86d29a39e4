// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// What annotated methods take and return: arguments that are views or pointers, and methods whose work ends
// after they have returned.

#include "locktesting.h"

#include <QDistLock/Annotations>

#include <QtCore/qpointer.h>
#include <QtCore/qpromise.h>
#include <QtCore/qsemaphore.h>
#include <QtCore/qset.h>
#include <QtCore/qstringlistmodel.h>
#include <QtCore/qthread.h>

#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>

using namespace LockTesting;
using namespace QDistLock;

/// QObject is not where the whole object begins.
class NotFirst : public std::exception, public QObject
{
};

using ObjectHash = QHash<QString, QObject *>;
using ObjectSets = QMap<int, QList<QSet<QObject *>>>;
using ObjectKeys = std::map<QObject *, int>;

class Sender : public QObject
{
    Q_OBJECT
Q_SIGNALS:
    void text(QStringView value);
    void anyText(QAnyStringView value);
    void latin1(QLatin1String value);
    void utf8(QUtf8StringView value);
    void bytes(QByteArrayView value);
    void standard(std::string_view value);
    void cString(const char *value);
    void utf16(const char16_t *value);
    void object(QObject *value);
    void variant(const QVariant &value);
    void number(int value);
    void unused(const int *value, int number);
    void hash(const ObjectHash &value);
    void sets(const ObjectSets &value);
    void keys(const ObjectKeys &value);
    void variants(const QVariantHash &value);
    void notFirst(NotFirst *value);
    void index(const QModelIndex &value);
};

class Receiver : public QObject
{
    Q_OBJECT
    QDL_LOCKED_METHOD(text, "views")
    QDL_LOCKED_METHOD(anyText, "views")
    QDL_LOCKED_METHOD(latin1, "views")
    QDL_LOCKED_METHOD(utf8, "views")
    QDL_LOCKED_METHOD(bytes, "views")
    QDL_LOCKED_METHOD(standard, "views")
    QDL_LOCKED_METHOD(cString, "views")
    QDL_LOCKED_METHOD(utf16, "views")
    QDL_LOCKED_METHOD(object, "object:{value.objectName}")
    QDL_LOCKED_METHOD(slow, "slow", "wait=1min")
    QDL_LOCKED_METHOD(slowVoid, "slow", "wait=1min")
    QDL_LOCKED_METHOD(slowOther, "slow", "wait=1min")
    QDL_LOCKED_METHOD(slowVariant, "slow", "wait=1min")
    QDL_LOCKED_METHOD(slowList, "slow", "wait=1min")
    QDL_LOCKED_METHOD(slowMap, "slow", "wait=1min")
    QDL_LOCKED_METHOD(throwing, "slow", "wait=1min")
    QDL_LOCKED_METHOD(hash, "objects")
    QDL_LOCKED_METHOD(sets, "objects")
    QDL_LOCKED_METHOD(keys, "objects")
    QDL_LOCKED_METHOD(variantHash, "objects")
    QDL_LOCKED_METHOD(notFirst, "object:{value.objectName}")
    QDL_LOCKED_METHOD(index, "index")
    QDL_LOCKED_METHOD(byteArray, "views")
public:
    QStringList seen;
    QList<int> begun;
    QPromise<int> promise;
    QPromise<void> promiseVoid;

    void note(const QString &value) { seen.append(value); }

    struct Unregistered
    {
    };

public Q_SLOTS:
    void text(QStringView value) { note(value.toString()); }
    void anyText(QAnyStringView value) { note(value.toString()); }
    void latin1(QLatin1String value) { note(value); }
    void utf8(QUtf8StringView value) { note(value.toString()); }
    void bytes(QByteArrayView value) { note(QString::fromUtf8(value)); }
    void standard(std::string_view value) { note(QString::fromUtf8(value.data(), qsizetype(value.size()))); }
    void cString(const char *value) { note(value ? QString::fromUtf8(value) : QStringLiteral("(null)")); }
    void utf16(const char16_t *value) { note(value ? QString::fromUtf16(value) : QStringLiteral("(null)")); }
    void object(QObject *value) { note(value ? value->objectName() : QStringLiteral("(null)")); }

    void hash(const ObjectHash &value) { note(value.begin().value()->objectName()); }
    void sets(const ObjectSets &value) { note((*value.first().first().begin())->objectName()); }
    void keys(const ObjectKeys &value) { note(value.begin()->first->objectName()); }
    void variantHash(const QVariantHash &value) { note(value.begin().value().value<QObject *>()->objectName()); }
    void notFirst(NotFirst *value) { note(value->objectName()); }
    void index(const QModelIndex &value) { note(value.data().toString()); }
    QByteArray byteArray(const QByteArray &value) { return value; }

    QFuture<int> slow(int value)
    {
        begun.append(value);
        promise = QPromise<int>();
        promise.start();
        return promise.future();
    }
    QFuture<void> slowVoid(int value)
    {
        begun.append(value);
        promiseVoid = QPromise<void>();
        promiseVoid.start();
        return promiseVoid.future();
    }
    QFuture<Receiver::Unregistered> slowOther()
    {
        begun.append(0);
        return QtFuture::makeReadyFuture(Unregistered());
    }
    QFuture<QVariant> slowVariant(const QVariant &value)
    {
        return QtFuture::makeReadyFuture(value);
    }
    QFuture<QStringList> slowList() { return QtFuture::makeReadyFuture(QStringList{QStringLiteral("a")}); }
    QFuture<QVariantMap> slowMap() { return QtFuture::makeReadyFuture(QVariantMap{{QStringLiteral("a"), 1}}); }
    QFuture<int> throwing(int value)
    {
        begun.append(value);
        throw std::runtime_error("thrown");
    }
};

namespace {

const QString Text = QStringLiteral("kept till then"); // too long for a std::string to hold in itself

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

template<typename T>
bool finished(const QFuture<T> &future)
{
    return eventually([&future] { return future.isFinished(); });
}

template<typename T>
LockResult failureOf(QFuture<T> future)
{
    try {
        future.waitForFinished();
    } catch (const LockUnavailable &unavailable) {
        return unavailable.result();
    }
    return {};
}

/// A thread whose event loop is blocked until letGo() is called.
class StoppedThread
{
public:
    StoppedThread()
    {
        m_context.moveToThread(&m_thread);
        m_thread.start();
        QMetaObject::invokeMethod(&m_context, [this] { m_goOn.acquire(); }, Qt::QueuedConnection);
    }
    ~StoppedThread()
    {
        letGo();
        m_thread.quit();
        m_thread.wait();
    }
    void letGo() { m_goOn.release(); }
    template<typename Function>
    void call(Function &&function)
    {
        QMetaObject::invokeMethod(&m_context, std::forward<Function>(function), Qt::BlockingQueuedConnection);
    }
    QThread *thread() { return &m_thread; }

private:
    QThread m_thread;
    QObject m_context;
    QSemaphore m_goOn;
};

} // namespace

class tst_AnnotatedTypes : public QObject
{
    Q_OBJECT
private Q_SLOTS:
    void initTestCase();
    void init();
    void cleanup();

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
    void argumentsThatTheSlotDoesNotTake();
    void senderDestroyedOnTheWay();

    void futureHoldsTheLock();
    void futureFails();
    void futureCancelled();
    void futureOfAFunctionObject();
    void futureThrowsBefore();
    void futureOutlivesItsReceiver();
    void futureOutlivesItsThread();
    void futureInvoked();
    void futureInvokedVoid();
    void futureInvokedFails();
    void futureInvokedCancelled();
    void futureInvokedOfUnknownType();
    void futureInvokedOfVariants();

    void keysOfFunctionObjects();
    void namesInErrors_data();
    void namesInErrors();

private:
    void hold(const QByteArray &key) { QCOMPARE(m_server.cli({"SET", key, "somebody", "PX", "600000"}), QByteArray("OK")); }
    void letGo(const QByteArray &key) { m_server.command({"DEL", key}); }
    /// The background thread has done what it was asked for before.
    bool settled() { return finished(withLock(QStringLiteral("other"), [] {})); }

    Support::RedisServer m_server;
};

void tst_AnnotatedTypes::initTestCase()
{
    QVERIFY2(m_server.start(), qPrintable(m_server.errorString()));
    LockRegistry::setDefaultServer(m_server.url());
}

void tst_AnnotatedTypes::init()
{
    m_server.command({"FLUSHALL"});
}

void tst_AnnotatedTypes::cleanup()
{
    if (!QTest::currentTestFailed())
        QVERIFY(eventually([this] { return lockKeys(m_server).isEmpty(); }));
}

void tst_AnnotatedTypes::viewsAreKept()
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

void tst_AnnotatedTypes::viewsAreKeptForAnotherThread()
{
    StoppedThread other;
    Sender sender;
    auto receiver = std::make_unique<Receiver>();
    receiver->moveToThread(other.thread());
    connectAll(&sender, receiver.get());
    emitAll(&sender);
    other.letGo();
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

void tst_AnnotatedTypes::viewsOfFunctionObjects()
{
    Sender sender;
    QObject context;
    QStringList seen;
    QVERIFY(connectLocked(&sender, &Sender::text, &context, [&](QStringView text) { seen.append(text.toString()); },
                          QStringLiteral("views")));
    QVERIFY(connectLocked(&sender, &Sender::cString, &context, [&](const QByteArray &text) { seen.append(QString::fromUtf8(text)); },
                          QStringLiteral("views")));
    QVERIFY(connectLocked(&sender, &Sender::standard, &context,
                          [&](auto text) { seen.append(QString::fromUtf8(text.data(), qsizetype(text.size()))); },
                          QStringLiteral("views")));
    hold("lock:views");
    emitAll(&sender);
    letGo("lock:views");
    QVERIFY(eventually([&] { return seen.size() == 3; }));
    QCOMPARE(seen, QStringList(3, Text));
}

void tst_AnnotatedTypes::viewsInKeys()
{
    Sender sender;
    Receiver receiver;
    const QString key = QStringLiteral("k:{value}");
    QVERIFY(connectLocked(&sender, &Sender::text, &receiver, &Receiver::text, key));
    QVERIFY(connectLocked(&sender, &Sender::anyText, &receiver, &Receiver::anyText, key));
    QVERIFY(connectLocked(&sender, &Sender::latin1, &receiver, &Receiver::latin1, key));
    QVERIFY(connectLocked(&sender, &Sender::utf8, &receiver, &Receiver::utf8, key));
    QVERIFY(connectLocked(&sender, &Sender::bytes, &receiver, &Receiver::bytes, key));
    QVERIFY(connectLocked(&sender, &Sender::standard, &receiver, &Receiver::standard, key));
    QVERIFY(connectLocked(&sender, &Sender::cString, &receiver, &Receiver::cString, key));
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

void tst_AnnotatedTypes::nullViews()
{
    Sender sender;
    Receiver receiver;
    connectAll(&sender, &receiver);
    Q_EMIT sender.cString(nullptr);
    Q_EMIT sender.utf16(nullptr);
    Q_EMIT sender.text(QStringView());
    QVERIFY(eventually([&] { return receiver.seen.size() == 3; }));
    QCOMPARE(receiver.seen, (QStringList{QStringLiteral("(null)"), QStringLiteral("(null)"), QString()}));
}

void tst_AnnotatedTypes::viewsInvoked()
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
        for (const QVariant &view : {QVariant::fromValue(QStringView(text)), QVariant::fromValue(QAnyStringView(text)),
                                     QVariant::fromValue(QByteArrayView(bytes)),
                                     QVariant::fromValue(QLatin1String(bytes)),
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

void tst_AnnotatedTypes::argumentDestroyedOnTheWay()
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
    StoppedThread other;
    Sender sender;
    auto receiver = std::make_unique<Receiver>();
    receiver->moveToThread(other.thread());
    QVERIFY(connectLocked(&sender, &Sender::object, receiver.get(), &Receiver::object));
    auto argument = std::make_unique<QObject>();
    argument->setObjectName(QStringLiteral("gone"));
    QObject kept;
    kept.setObjectName(QStringLiteral("kept"));
    const LogCapture log;
    Q_EMIT sender.object(argument.get());
    Q_EMIT sender.object(&kept);
    argument.reset();
    other.letGo();
    const auto seen = [&] {
        QStringList copy;
        other.call([&] { copy = receiver->seen; });
        return copy;
    };
    QVERIFY(eventually([&] { return failures().size() == 1 && seen().size() == 1; }));
    QCOMPARE(seen(), QStringList{QStringLiteral("kept")});
    const LockedCallInfo call = failures().first();
    QCOMPARE(call.error, DistributedLock::CancelledError);
    QVERIFY2(call.errorString.startsWith(QStringLiteral("Receiver::object: an object among its arguments was destroyed")),
             qPrintable(call.errorString));
    QCOMPARE(log.count({call.errorString}), 1);
    other.call([&] { receiver.reset(); });
}

void tst_AnnotatedTypes::variants()
{
    // With a view in it, and with a pointer to an object.
    QSignalSpy failed(LockedCalls::instance(), &LockedCalls::failed);
    Sender sender;
    QObject context;
    QVariantList seen;
    QVERIFY(connectLocked(&sender, &Sender::variant, &context, [&](const QVariant &value) { seen.append(value); },
                          QStringLiteral("views")));
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

void tst_AnnotatedTypes::objectsInContainersDestroyed_data()
{
    using Connect = std::function<QMetaObject::Connection(Sender *, Receiver *)>;
    using Emit = std::function<void(Sender *, QObject *)>;
    QTest::addColumn<Connect>("makeConnection");
    QTest::addColumn<Emit>("send");
    const auto row = [](const char *name, auto signal, auto slot, Emit send) {
        const Connect connect = [=](Sender *sender, Receiver *receiver) {
            return connectLocked(sender, signal, receiver, slot);
        };
        QTest::newRow(name) << connect << send;
    };
    row("hash", &Sender::hash, &Receiver::hash,
        [](Sender *sender, QObject *object) { Q_EMIT sender->hash({{QStringLiteral("a"), object}}); });
    row("nested", &Sender::sets, &Receiver::sets,
        [](Sender *sender, QObject *object) { Q_EMIT sender->sets({{1, {{object}}}}); });
    row("keys", &Sender::keys, &Receiver::keys, [](Sender *sender, QObject *object) { Q_EMIT sender->keys({{object, 1}}); });
    row("variants", &Sender::variants, &Receiver::variantHash, [](Sender *sender, QObject *object) {
        Q_EMIT sender->variants({{QStringLiteral("a"), QVariant::fromValue(object)}});
    });
}

void tst_AnnotatedTypes::objectsInContainersDestroyed()
{
    QFETCH(std::function<QMetaObject::Connection(Sender *, Receiver *)>, makeConnection);
    QFETCH(std::function<void(Sender *, QObject *)>, send);
    QSignalSpy failed(LockedCalls::instance(), &LockedCalls::failed);
    Sender sender;
    Receiver receiver;
    QVERIFY(makeConnection(&sender, &receiver));
    auto argument = std::make_unique<QObject>();
    QObject kept;
    kept.setObjectName(QStringLiteral("kept"));
    const LogCapture log;
    hold("lock:objects");
    send(&sender, argument.get());
    send(&sender, &kept);
    argument.reset();
    letGo("lock:objects");
    QVERIFY(eventually([&] { return receiver.seen.size() + failed.size() == 2; }));
    QCOMPARE(receiver.seen, QStringList{QStringLiteral("kept")});
    QCOMPARE(failed.first().first().value<LockedCallInfo>().error, DistributedLock::CancelledError);
}

void tst_AnnotatedTypes::objectInvokedInAContainer()
{
    Receiver receiver;
    auto argument = std::make_unique<QObject>();
    const LogCapture log;
    hold("lock:objects");
    const auto call = invokeLocked(&receiver, "hash", ObjectHash{{QStringLiteral("a"), argument.get()}});
    argument.reset();
    letGo("lock:objects");
    QVERIFY(finished(call));
    QCOMPARE(failureOf(call).error, DistributedLock::CancelledError);
    QCOMPARE(receiver.seen, QStringList());
}

void tst_AnnotatedTypes::objectThatIsNotFirst()
{
    QSignalSpy failed(LockedCalls::instance(), &LockedCalls::failed);
    Sender sender;
    Receiver receiver;
    QVERIFY(connectLocked(&sender, &Sender::notFirst, &receiver, &Receiver::notFirst));
    auto argument = std::make_unique<NotFirst>();
    NotFirst kept;
    kept.setObjectName(QStringLiteral("kept"));
    const LogCapture log;
    hold("lock:object:kept");
    Q_EMIT sender.notFirst(argument.get());
    Q_EMIT sender.notFirst(&kept);
    argument.reset();
    QVERIFY(settled());
    QCOMPARE(receiver.seen, QStringList());
    letGo("lock:object:kept");
    QVERIFY(eventually([&] { return receiver.seen.size() + failed.size() == 2; }));
    QCOMPARE(receiver.seen, QStringList{QStringLiteral("kept")});
}

void tst_AnnotatedTypes::modelIndexes()
{
    Sender sender;
    Receiver receiver;
    QVERIFY(connectLocked(&sender, &Sender::index, &receiver, &Receiver::index));
    QStringListModel model({QStringLiteral("a"), QStringLiteral("b"), QStringLiteral("c")});
    hold("lock:index");
    Q_EMIT sender.index(model.index(1));
    Q_EMIT sender.index(model.index(2));
    const auto call = invokeLocked(&receiver, "index", model.index(2));
    QVERIFY(model.removeRows(0, 2)); // "b" is gone, "c" is another row
    letGo("lock:index");
    QVERIFY(finished(call));
    QCOMPARE(failureOf(call).errorString, QString());
    QCOMPARE(receiver.seen, (QStringList{QString(), QStringLiteral("c"), QStringLiteral("c")}));
}

static QList<int> numbersSeen;
static void seeNumber(int number)
{
    numbersSeen.append(number);
}
static void seeNumberNoexcept(int number) noexcept
{
    numbersSeen.append(number);
}

void tst_AnnotatedTypes::functionPointers()
{
    numbersSeen.clear();
    Sender sender;
    QObject context;
    QVERIFY(connectLocked(&sender, &Sender::number, &context, seeNumber, QStringLiteral("number:{1}")));
    QVERIFY(connectLocked(&sender, &Sender::number, &context, &seeNumberNoexcept, QStringLiteral("number:{1}")));
    Q_EMIT sender.number(7);
    QVERIFY(eventually([&] { return numbersSeen.size() == 2; }));
    QCOMPARE(numbersSeen, (QList<int>{7, 7}));
}

void tst_AnnotatedTypes::bytesThatAreNotText()
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
    for (const auto &call :
         {invokeLocked(&receiver, "byteArray", bytes.constData()),
          invokeLocked(&receiver, "byteArray", std::string_view(bytes.constData())),
          invokeLocked(&receiver, "byteArray", QUtf8StringView(bytes.constData(), bytes.size()))}) {
        QVERIFY(finished(call));
        QCOMPARE(failureOf(call).errorString, QString());
        QCOMPARE(call.result().toByteArray(), bytes);
    }
}

void tst_AnnotatedTypes::senderDestroyedOnTheWay()
{
    // An emission runs even if its sender or connection is destroyed before it arrives in the receiver's thread.
    StoppedThread other;
    auto receiver = std::make_unique<Receiver>();
    receiver->moveToThread(other.thread());
    auto sender = std::make_unique<Sender>();
    Sender disconnected;
    QVERIFY(connectLocked(sender.get(), &Sender::text, receiver.get(), &Receiver::text));
    const auto connection = connectLocked(&disconnected, &Sender::text, receiver.get(), &Receiver::text);
    Q_EMIT sender->text(u"first");
    Q_EMIT disconnected.text(u"second");
    sender.reset();
    QObject::disconnect(connection);
    Q_EMIT disconnected.text(u"third");
    other.letGo();
    const auto seen = [&] {
        QStringList copy;
        other.call([&] { copy = receiver->seen; });
        return copy;
    };
    QVERIFY(eventually([&] { return seen().size() == 2; }));
    QCOMPARE(seen(), (QStringList{QStringLiteral("first"), QStringLiteral("second")}));
    other.call([&] { receiver.reset(); });
}

void tst_AnnotatedTypes::argumentsThatTheSlotDoesNotTake()
{
    // A pointer to anything is refused at compile time only where it would have to be kept.
    Sender sender;
    QObject context;
    int calls = 0;
    QVERIFY(connectLocked(&sender, &Sender::unused, &context, [&] { ++calls; }, QStringLiteral("unused")));
    Q_EMIT sender.unused(&calls, 1);
    QVERIFY(eventually([&] { return calls == 1; }));
}

void tst_AnnotatedTypes::futureHoldsTheLock()
{
    Sender sender;
    Receiver receiver;
    QVERIFY(connectLocked(&sender, &Sender::number, &receiver, &Receiver::slow));
    Q_EMIT sender.number(1);
    Q_EMIT sender.number(2);
    QVERIFY(eventually([&] { return !receiver.begun.isEmpty(); }));
    QVERIFY(settled());
    QVERIFY(m_server.exists("lock:slow"));
    QCOMPARE(receiver.begun, QList<int>{1});
    receiver.promise.addResult(1);
    receiver.promise.finish();
    QVERIFY(eventually([&] { return receiver.begun.size() == 2; }));
    QVERIFY(settled());
    QVERIFY(m_server.exists("lock:slow"));
    receiver.promise.finish();
}

void tst_AnnotatedTypes::futureFails()
{
    Sender sender;
    Receiver receiver;
    QVERIFY(connectLocked(&sender, &Sender::number, &receiver, &Receiver::slow));
    Q_EMIT sender.number(1);
    QVERIFY(eventually([&] { return !receiver.begun.isEmpty(); }));
    QVERIFY(settled());
    QVERIFY(m_server.exists("lock:slow"));
    const LogCapture log;
    receiver.promise.setException(std::make_exception_ptr(std::runtime_error("failed\nlater")));
    receiver.promise.finish();
    QVERIFY(eventually([&] { return !m_server.exists("lock:slow"); }));
    // Nobody else sees it.
    QCOMPARE(log.count({QStringLiteral("Receiver::slow"), QStringLiteral("ended with an exception"),
                        QStringLiteral("\"failed\\nlater\"")}),
             1);
}

void tst_AnnotatedTypes::futureCancelled()
{
    Sender sender;
    Receiver receiver;
    QVERIFY(connectLocked(&sender, &Sender::number, &receiver, &Receiver::slowVoid));
    Q_EMIT sender.number(1);
    QVERIFY(eventually([&] { return !receiver.begun.isEmpty(); }));
    receiver.promiseVoid.future().cancel();
    processEvents();
    QVERIFY(settled());
    QVERIFY(m_server.exists("lock:slow")); // its work has not ended
    receiver.promiseVoid.finish();
    QVERIFY(eventually([&] { return !m_server.exists("lock:slow"); }));
}

void tst_AnnotatedTypes::futureOfAFunctionObject()
{
    Sender sender;
    QObject context;
    QPromise<QString> promise;
    promise.start();
    bool begun = false;
    QVERIFY(connectLocked(&sender, &Sender::number, &context,
                          [&](int) {
                              begun = true;
                              return promise.future();
                          },
                          QStringLiteral("slow")));
    Q_EMIT sender.number(1);
    QVERIFY(eventually([&] { return begun; }));
    QVERIFY(settled());
    QVERIFY(m_server.exists("lock:slow"));
    promise.finish();
}

void tst_AnnotatedTypes::futureThrowsBefore()
{
    Receiver receiver;
    const auto call = invokeLocked(&receiver, "throwing", 1);
    QVERIFY(finished(call));
    QVERIFY_THROWS_EXCEPTION(std::runtime_error, call.result());
}

void tst_AnnotatedTypes::futureOutlivesItsReceiver()
{
    Sender sender;
    auto receiver = std::make_unique<Receiver>();
    QVERIFY(connectLocked(&sender, &Sender::number, receiver.get(), &Receiver::slow));
    Q_EMIT sender.number(1);
    QVERIFY(eventually([&] { return !receiver->begun.isEmpty(); }));
    QPromise<int> promise = std::move(receiver->promise);
    receiver.reset();
    QVERIFY(settled());
    QVERIFY(m_server.exists("lock:slow"));
    promise.finish();
}

void tst_AnnotatedTypes::futureOutlivesItsThread()
{
    QPromise<int> promise;
    promise.start();
    Sender sender;
    {
        StoppedThread other;
        other.letGo();
        QObject receiver;
        receiver.moveToThread(other.thread());
        QSemaphore begun;
        QVERIFY(connectLocked(&sender, &Sender::number, &receiver,
                              [&](int) {
                                  begun.release();
                                  return promise.future();
                              },
                              QStringLiteral("slow")));
        Q_EMIT sender.number(1);
        QVERIFY(begun.tryAcquire(1, 10000));
        QVERIFY(m_server.exists("lock:slow"));
        other.call([&] { receiver.moveToThread(thread()); });
    }
    QVERIFY(eventually([&] { return !m_server.exists("lock:slow"); }));
    promise.finish();
}

void tst_AnnotatedTypes::futureInvoked()
{
    Receiver receiver;
    const QFuture<QVariant> call = invokeLocked(&receiver, "slow", 1);
    const QFuture<QVariant> next = invokeLocked(&receiver, "slow", 2);
    QVERIFY(eventually([&] { return !receiver.begun.isEmpty(); }));
    QVERIFY(settled());
    QVERIFY(m_server.exists("lock:slow"));
    QVERIFY(!call.isFinished());
    QCOMPARE(receiver.begun, QList<int>{1});
    receiver.promise.addResult(42);
    receiver.promise.finish();
    receiver.promise = QPromise<int>(); // nobody but the call has the future
    QVERIFY(finished(call));
    QCOMPARE(call.result(), QVariant(42));

    // Several results at once, and of them the first.
    QVERIFY(eventually([&] { return receiver.begun.size() == 2; }));
    QFutureInterface<int> several = QFutureInterface<int>(QFutureInterfaceBase::get(receiver.promise.future()));
    several.reportResults({7, 8});
    receiver.promise.finish();
    QVERIFY(finished(next));
    QCOMPARE(next.result(), QVariant(7));
}

void tst_AnnotatedTypes::futureInvokedVoid()
{
    Receiver receiver;
    const QFuture<QVariant> call = invokeLocked(&receiver, "slowVoid", 1);
    QVERIFY(eventually([&] { return !receiver.begun.isEmpty(); }));
    QVERIFY(settled());
    QVERIFY(m_server.exists("lock:slow"));
    receiver.promiseVoid.finish();
    QVERIFY(finished(call));
    QCOMPARE(call.result(), QVariant());
}

void tst_AnnotatedTypes::futureInvokedFails()
{
    Receiver receiver;
    const QFuture<QVariant> call = invokeLocked(&receiver, "slow", 1);
    QVERIFY(eventually([&] { return !receiver.begun.isEmpty(); }));
    receiver.promise.setException(std::make_exception_ptr(std::runtime_error("later")));
    receiver.promise.finish();
    QVERIFY(finished(call));
    QVERIFY_THROWS_EXCEPTION(std::runtime_error, call.result());
}

void tst_AnnotatedTypes::futureInvokedCancelled()
{
    Receiver receiver;
    // The method's future by itself.
    const QFuture<QVariant> call = invokeLocked(&receiver, "slow", 1);
    QVERIFY(eventually([&] { return !receiver.begun.isEmpty(); }));
    receiver.promise.future().cancel();
    receiver.promise.finish();
    QVERIFY(finished(call));
    QVERIFY(call.isCanceled());

    // The caller's future, which cancels the method's.
    QFuture<QVariant> cancelled = invokeLocked(&receiver, "slow", 2);
    QVERIFY(eventually([&] { return receiver.begun.size() == 2; }));
    cancelled.cancel();
    QVERIFY(eventually([&] { return receiver.promise.isCanceled(); }));
    QVERIFY(m_server.exists("lock:slow"));
    receiver.promise.finish();
    QVERIFY(finished(cancelled));

    // Finished without a result.
    const QFuture<QVariant> none = invokeLocked(&receiver, "slow", 3);
    QVERIFY(eventually([&] { return receiver.begun.size() == 3; }));
    receiver.promise.finish();
    QVERIFY(finished(none));
    QVERIFY(none.isCanceled());
}

void tst_AnnotatedTypes::futureInvokedOfUnknownType()
{
    // Its result cannot be put in a QVariant: said before the call, not after it.
    Receiver receiver;
    const auto call = invokeLocked(&receiver, "slowOther");
    QVERIFY(finished(call));
    const LockResult failure = failureOf(call);
    QCOMPARE(failure.error, DistributedLock::OptionsError);
    QVERIFY2(failure.errorString.contains(QStringLiteral("qRegisterMetaType<Receiver::Unregistered>()")),
             qPrintable(failure.errorString));
    QVERIFY(receiver.begun.isEmpty());
    qRegisterMetaType<Receiver::Unregistered>();
    const auto again = invokeLocked(&receiver, "slowOther");
    QVERIFY(finished(again));
    QVERIFY(again.result().canConvert<Receiver::Unregistered>());
}

void tst_AnnotatedTypes::futureInvokedOfVariants()
{
    // The value itself, not a QVariant in a QVariant; an invalid one is a result, too.
    Receiver receiver;
    const auto number = invokeLocked(&receiver, "slowVariant", 7);
    const auto invalid = invokeLocked(&receiver, "slowVariant", QVariant());
    const auto list = invokeLocked(&receiver, "slowList");
    const auto map = invokeLocked(&receiver, "slowMap");
    for (const auto &call : {number, invalid, list, map}) {
        QVERIFY(finished(call));
        QVERIFY(!call.isCanceled());
    }
    QCOMPARE(number.result().metaType(), QMetaType::fromType<int>());
    QCOMPARE(number.result(), QVariant(7));
    QCOMPARE(invalid.result(), QVariant());
    QCOMPARE(list.result(), QVariant(QStringList{QStringLiteral("a")}));
    QCOMPARE(map.result().toMap().value(QStringLiteral("a")), QVariant(1));
}

void tst_AnnotatedTypes::keysOfFunctionObjects()
{
    Sender sender;
    Receiver receiver;
    const LogCapture log;
    QVERIFY(!connectLocked(&sender, &Sender::number, &receiver, [](int id) { Q_UNUSED(id) }, QStringLiteral("k:{id}")));
    QCOMPARE(log.messages(),
             QStringList{QStringLiteral("connectLocked(): Receiver: key \"k:{id}\": key, {id}: there is no parameter \"id\": "
                                        "the names of parameters are known only of methods with QDL_LOCKED_METHOD(); "
                                        "write {1} for the first one; nothing was connected")});
}

void tst_AnnotatedTypes::namesInErrors_data()
{
    QTest::addColumn<QString>("name");
    QTest::newRow("line feed") << QStringLiteral("first\nsecond: forged");
    QTest::newRow("escape sequence") << QStringLiteral("red\x1b[31m");
    QTest::newRow("NUL") << QStringLiteral("a") + QChar(QChar::Null) + QStringLiteral("b");
    QTest::newRow("long") << QString(5000, u'a');
    QTest::newRow("long path") << QStringLiteral("{%1}").arg(QString(5000, u'a'));
    QTest::newRow("long property") << QStringLiteral("{this.%1}").arg(QString(5000, u'a'));
}

void tst_AnnotatedTypes::namesInErrors()
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
    connectLocked(&sender, &Sender::number, &receiver, &Receiver::slow, QStringLiteral("k"), name);
    connectLocked(&sender, &Sender::number, &receiver, &Receiver::slow, QStringLiteral("k"), name + u'=');
    connectLocked(&sender, &Sender::number, &receiver, &Receiver::slow, QStringLiteral("k"), QStringLiteral("condition=") + name);
    connectLocked(&sender, &Sender::number, &receiver, &Receiver::slow, QStringLiteral("k"),
                  QStringLiteral("condition=this.") + name);
    QVERIFY(finished(call) && finished(ofNull));
    QStringList texts = log.messages();
    QVERIFY2(texts.size() >= 7, qPrintable(log.text()));
    texts << failureOf(call).errorString << failureOf(ofNull).errorString;
    for (const QString &text : std::as_const(texts)) {
        QVERIFY(!text.isEmpty());
        QVERIFY2(std::all_of(text.begin(), text.end(), [](QChar c) { return c.unicode() >= 0x20; }), qPrintable(text));
        QVERIFY2(text.size() < 1500, qPrintable(text));
    }
}

QTEST_GUILESS_MAIN(tst_AnnotatedTypes)
#include "tst_annotatedtypes.moc"
