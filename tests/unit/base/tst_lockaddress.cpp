// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "lock/resolvedaddress.h"

#include <QDistLock/LockAddress>
#include <QDistLock/LockRegistry>

#include <QtCore/qstringbuilder.h>
#include <QtTest/qtest.h>

#include <type_traits>

using namespace Qt::StringLiterals;

using namespace QDistLock;

namespace {

// Implicit, as the parameter of a function needs it.
QString nameOf(const LockAddress &address)
{
    return address.name();
}

template<typename T>
constexpr bool IsAddress = std::is_convertible_v<T, LockAddress>;

static_assert(IsAddress<QString> && IsAddress<QString &> && IsAddress<const QString &>);
static_assert(IsAddress<QStringView> && IsAddress<QLatin1String>);
static_assert(IsAddress<const char (&)[4]> && IsAddress<const char16_t (&)[4]>);
#ifdef __cpp_char8_t
static_assert(IsAddress<const char8_t (&)[4]>);
#endif
// As for a QString.
static_assert(IsAddress<const char *> == std::is_convertible_v<const char *, QString>);
static_assert(IsAddress<QByteArray> == std::is_convertible_v<QByteArray, QString>);
static_assert(!IsAddress<int> && !IsAddress<QUrl> && !IsAddress<QObject *>);
static_assert(!IsAddress<const wchar_t (&)[4]> && !IsAddress<const char32_t (&)[4]>);

} // namespace

class tst_LockAddress : public QObject
{
    Q_OBJECT

private Q_SLOTS:
    void cleanup() { LockRegistry::setDefaultServer(QUrl()); }

    void names();
    void defaults();
    void values();
    void resolvedAddress();
    void sameKey();
};

void tst_LockAddress::names()
{
    const QString job = u"job"_s;
    QString variable = job;
    QCOMPARE(nameOf(job), job);
    QCOMPARE(nameOf(variable), job);
    QCOMPARE(nameOf(std::move(variable)), job);
    QCOMPARE(nameOf(QStringView(job)), job);
    QCOMPARE(nameOf(QLatin1String("job")), job);
    QCOMPARE(nameOf(job % u':' % QString::number(7)), u"job:7"_s); // QStringBuilder
    QCOMPARE(nameOf("j\u00f6b"), u"j\u00f6b"_s);
    QCOMPARE(nameOf(u"j\u00f6b"), u"j\u00f6b"_s);
    static constexpr char padded[8] = {'j', 'o', 'b'};
    QCOMPARE(nameOf(padded), job);
    static constexpr char16_t full[3] = {u'j', u'o', u'b'};
    QCOMPARE(nameOf(full), job);
    QVERIFY(nameOf(LockAddress()).isEmpty());
}

void tst_LockAddress::defaults()
{
    const LockAddress address = u"job"_s;
    QVERIFY(address.keyPrefix().isNull());
    QVERIFY(address.server().isEmpty());
}

void tst_LockAddress::values()
{
    const LockAddress address = u"job"_s;
    const QUrl server(u"memory:x"_s);
    const LockAddress other = address.withKeyPrefix(u"app:"_s).withServer(server);
    QCOMPARE(other.name(), u"job"_s);
    QCOMPARE(other.keyPrefix(), u"app:"_s);
    QCOMPARE(other.server(), server);
    QVERIFY(address.keyPrefix().isNull()); // unchanged
    QVERIFY(address.server().isEmpty());
    const LockAddress bare = other.withKeyPrefix(u""_s);
    QVERIFY(bare.keyPrefix().isEmpty() && !bare.keyPrefix().isNull());
    QVERIFY(bare.withKeyPrefix(QString()).keyPrefix().isNull());
}

void tst_LockAddress::resolvedAddress()
{
    LockRegistry::setDefaultServer(QUrl(u"redis://example.org"_s));
    const LockAddress usual = resolved(u"job"_s);
    QCOMPARE(usual.server(), LockRegistry::defaultServer());
    QCOMPARE(usual.keyPrefix(), u"lock:"_s);
    QCOMPARE(keyOf(usual), u"lock:job"_s);

    const auto own = LockAddress(u"job"_s).withKeyPrefix(u""_s).withServer(QUrl(u"redis://EXAMPLE.com/0"_s));
    QCOMPARE(resolved(own).server(), QUrl(u"redis://example.com:6379"_s));
    QCOMPARE(keyOf(resolved(own)), u"job"_s);
    QCOMPARE(keyOf(resolved(own.withKeyPrefix(u"app:"_s))), u"app:job"_s);
}

void tst_LockAddress::sameKey()
{
    QCOMPARE(keyOf(resolved(LockAddress(u"b"_s).withKeyPrefix(u"lock:a"_s))), keyOf(resolved(u"ab"_s)));
}

QTEST_APPLESS_MAIN(tst_LockAddress)

#include "tst_lockaddress.moc"
