// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "engine/quorum/servergroup.h"

#include <algorithm>

using namespace Qt::StringLiterals;

namespace QDistLock {

EngineError ServerGroup::tooFew(int agreeing, const QString &what, const QList<EngineError> &errors) const
{
    QStringList reasons;
    bool isMaybeExecuted = false;
    for (const EngineError &error : errors) {
        reasons.append(error.text.endsWith(u'.') ? error.text.chopped(1) : error.text);
        isMaybeExecuted |= error.isMaybeExecuted;
    }
    const auto haveCode = [&](DistributedLock::Error code, bool isPermanent) {
        return std::count_if(errors.cbegin(), errors.cend(), [&](const EngineError &error) {
            return error.code == code && (error.isPermanent || !isPermanent);
        });
    };
    EngineError result;
    if (agreeing == 0 && haveCode(DistributedLock::ConnectionError, false) == size()) {
        result = EngineError::passing(
                DistributedLock::ConnectionError,
                u"none of the %1 servers of the quorum can be reached: %2."_s.arg(size()).arg(reasons.join(u"; "_s)));
    } else {
        const QString text = u"%1 of %2 servers of the quorum %3, but %4 are needed: %5."_s.arg(
                QString::number(agreeing), QString::number(size()), what, QString::number(majority()),
                reasons.join(u"; "_s));
        result = EngineError::passing(DistributedLock::QuorumError, text);
        // The rest is no majority: another attempt fails, too.
        for (const EngineError &error : errors) {
            if (error.isPermanent && haveCode(error.code, true) > size() - majority())
                result = EngineError::permanent(error.code, text);
        }
    }
    result.isMaybeExecuted = isMaybeExecuted;
    return result;
}

} // namespace QDistLock
