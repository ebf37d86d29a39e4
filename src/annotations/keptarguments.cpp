// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include <QDistLock/impl/keptarguments.h>

#include <QtCore/qassociativeiterable.h>
#include <QtCore/qsequentialiterable.h>
#include <QtCore/qstringconverter.h>

namespace QDistLock::Detail {

namespace {

using ObjectList = QList<QPointer<const QObject>>;

bool isList(QMetaType type)
{
    return type.id() >= QMetaType::User && QMetaType::canView(type, QMetaType::fromType<QSequentialIterable>());
}

bool isMap(QMetaType type)
{
    return type.id() >= QMetaType::User && QMetaType::canView(type, QMetaType::fromType<QAssociativeIterable>());
}

bool mayHaveObjects(QMetaType type)
{
    switch (type.id()) {
    case QMetaType::UnknownType:
        return false;
    case QMetaType::QVariant:
    case QMetaType::QVariantList:
    case QMetaType::QVariantMap:
    case QMetaType::QVariantHash:
        return true;
    default:
        return type.flags().testFlag(QMetaType::PointerToQObject) || isList(type) || isMap(type);
    }
}

void addObjects(QMetaType type, const void *value, ObjectList *objects)
{
    if (type.flags().testFlag(QMetaType::PointerToQObject)) {
        if (const auto *const object = *static_cast<const QObject *const *>(value))
            objects->append(object);
    } else if (type == QMetaType::fromType<QVariant>()) {
        const auto *const variant = static_cast<const QVariant *>(value);
        addObjects(variant->metaType(), variant->constData(), objects);
    } else if (type.id() == QMetaType::QVariantList) {
        for (const QVariant &element : *static_cast<const QVariantList *>(value))
            addObjects(element.metaType(), element.constData(), objects);
    } else if (type.id() == QMetaType::QVariantMap) {
        for (const QVariant &element : *static_cast<const QVariantMap *>(value))
            addObjects(element.metaType(), element.constData(), objects);
    } else if (type.id() == QMetaType::QVariantHash) {
        for (const QVariant &element : *static_cast<const QVariantHash *>(value))
            addObjects(element.metaType(), element.constData(), objects);
    } else if (isList(type)) {
        const QVariant list(type, value); // must outlive the sequence
        const auto sequence = list.value<QSequentialIterable>();
        if (!mayHaveObjects(sequence.metaContainer().valueMetaType()))
            return;
        for (const QVariant &element : sequence)
            addObjects(element.metaType(), element.constData(), objects);
    } else if (isMap(type)) {
        const QVariant map(type, value);
        const auto association = map.value<QAssociativeIterable>();
        const QMetaAssociation container = association.metaContainer();
        if (!mayHaveObjects(container.keyMetaType()) && !mayHaveObjects(container.mappedMetaType()))
            return;
        for (auto entry = association.begin(); entry != association.end(); ++entry) {
            for (const QVariant &element : {QVariant(entry.key()), QVariant(entry.value())})
                addObjects(element.metaType(), element.constData(), objects);
        }
    }
}

/// \a bytes as text; as bytes if they are not UTF-8, which a text could not hold.
QVariant textOrBytes(QByteArrayView bytes)
{
    QStringDecoder decoder(QStringDecoder::Utf8, QStringDecoder::Flag::Stateless);
    const QString text = decoder(bytes);
    return decoder.hasError() ? QVariant(bytes.toByteArray()) : QVariant(text);
}

} // namespace

QVariant ownedArgument(const QVariant &value)
{
    const QMetaType type = value.metaType();
    if (type == QMetaType::fromType<QStringView>())
        return value.value<QStringView>().toString();
    if (type == QMetaType::fromType<QAnyStringView>())
        return value.value<QAnyStringView>().toString();
    if (type == QMetaType::fromType<QUtf8StringView>())
        return textOrBytes(value.value<QUtf8StringView>());
    if (type == QMetaType::fromType<QLatin1String>())
        return QString(value.value<QLatin1String>());
    if (type == QMetaType::fromType<QByteArrayView>())
        return value.value<QByteArrayView>().toByteArray();
    if (type == QMetaType::fromType<const char *>())
        return textOrBytes(value.value<const char *>());
    if (type == QMetaType::fromType<std::string_view>())
        return textOrBytes(value.value<std::string_view>());
    if (type == QMetaType::fromType<QModelIndex>())
        return QVariant::fromValue(QPersistentModelIndex(value.toModelIndex()));
    return value;
}

QList<QPointer<const QObject>> objectsIn(qsizetype count, const QMetaType *types, const void *const *values)
{
    ObjectList objects;
    for (qsizetype i = 0; i < count; ++i)
        addObjects(types[i], values[i], &objects);
    return objects;
}

} // namespace QDistLock::Detail
