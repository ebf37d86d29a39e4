// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include <QDistLock/impl/keptarguments.h>

#include <QtCore/qassociativeiterable.h>
#include <QtCore/qsequentialiterable.h>

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

} // namespace

QList<QPointer<const QObject>> objectsIn(qsizetype count, const QMetaType *types, const void *const *values)
{
    ObjectList objects;
    for (qsizetype i = 0; i < count; ++i)
        addObjects(types[i], values[i], &objects);
    return objects;
}

} // namespace QDistLock::Detail
