// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "engine/lockengine.h"
#include "engine/token.h"

#include <QtCore/qobject.h>
#include <QtCore/qstringlist.h>

#include <algorithm>
#include <chrono>

namespace EngineTesting {

inline QString notice(const char *what, const QByteArray &token)
{
    return QStringLiteral("%1 %2").arg(QLatin1String(what)).arg(QDistLock::Token::sequenceOf(token));
}

/// The notices of an engine, in words.
class Notices
{
public:
    explicit Notices(QDistLock::LockEngine &engine)
    {
        QObject::connect(&engine, &QDistLock::LockEngine::noticed, &m_context,
                         [this](QDistLock::LockEngine::Notice notice, quint64 sequence, std::chrono::milliseconds ms) {
                             switch (notice) {
                             case QDistLock::LockEngine::Grant:
                                 list.append(QStringLiteral("grant %1").arg(sequence));
                                 break;
                             case QDistLock::LockEngine::Next:
                                 list.append(QStringLiteral("next %1").arg(sequence));
                                 pollAfter = ms;
                                 break;
                             case QDistLock::LockEngine::ForcedRelease:
                                 list.append(QStringLiteral("force %1").arg(sequence));
                                 break;
                             }
                         });
        QObject::connect(&engine, &QDistLock::LockEngine::handedOver, &m_context,
                         [this](const QDistLock::LockEngine::Handover &handover) { handedOver.append(handover); });
    }

    bool wasGranted(const QByteArray &token) const
    {
        return list.contains(notice("grant", token))
                || std::any_of(
                        handedOver.begin(), handedOver.end(),
                        [&token](const QDistLock::LockEngine::Handover &handover) { return handover.token == token; });
    }

    QStringList list;
    std::chrono::milliseconds pollAfter{-1}; ///< of the last Next
    QList<QDistLock::LockEngine::Handover> handedOver;

private:
    QObject m_context;
};

} // namespace EngineTesting
