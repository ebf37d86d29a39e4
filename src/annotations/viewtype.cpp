// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "annotations/viewtype.h"

#include <QDistLock/impl/keptarguments.h>

#include <QtCore/qstringconverter.h>

#include <algorithm>
#include <iterator>
#include <string_view>
#include <type_traits>

namespace QDistLock {

namespace {

/// \a bytes as text; as bytes if they are not UTF-8, which a text could not hold.
QVariant textOrBytes(QByteArrayView bytes)
{
    QStringDecoder decoder(QStringDecoder::Utf8, QStringDecoder::Flag::Stateless);
    const QString text = decoder(bytes);
    return decoder.hasError() ? QVariant(bytes.toByteArray()) : QVariant(text);
}

template<typename View>
ViewType viewType()
{
    using Kept = Detail::Kept<View>;
    // Qt has no conversions to std::string.
    constexpr bool isStdView = std::is_same_v<View, std::string_view>;
    using Owner = std::conditional_t<isStdView, QByteArray, typename Kept::Type>;
    const auto own = [](const QVariant &view) {
        if constexpr (std::is_same_v<Owner, QByteArray> && !std::is_same_v<View, QByteArrayView>)
            return textOrBytes(view.value<View>());
        else
            return QVariant::fromValue(Kept::keep(view.value<View>()));
    };
    const auto make = [](const QVariant &argument) {
        const auto &owner = *static_cast<const Owner *>(argument.constData());
        if constexpr (isStdView)
            return QVariant::fromValue(View(owner.constData(), size_t(owner.size())));
        else
            return QVariant::fromValue(Kept::argument(owner));
    };
    return {QMetaType::fromType<View>(), QMetaType::fromType<Owner>(), own, make};
}

} // namespace

const ViewType *findViewType(QMetaType type)
{
    static const ViewType types[] = {
            viewType<QStringView>(),     viewType<QAnyStringView>(), viewType<QByteArrayView>(),
            viewType<QUtf8StringView>(), viewType<const char *>(),   viewType<std::string_view>(),
            viewType<QModelIndex>(),
    };
    const auto found = std::find_if(std::begin(types), std::end(types),
                                    [type](const ViewType &known) { return known.view == type; });
    return found == std::end(types) ? nullptr : found;
}

QVariant Detail::ownedArgument(const QVariant &value)
{
    const QMetaType type = value.metaType();
    if (type == QMetaType::fromType<QLatin1String>()) // no parameter of invokeLocked() can be one
        return QString(value.value<QLatin1String>());
    const ViewType *const view = findViewType(type);
    return view ? view->own(value) : value;
}

} // namespace QDistLock
