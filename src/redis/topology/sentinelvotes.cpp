// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "redis/topology/sentinelvotes.h"

#include <algorithm>
#include <functional>

namespace QtRedis {

qsizetype SentinelVotes::total() const
{
    std::vector<qsizetype> claims;
    for (const SentinelVote &vote : votes) {
        if (vote.isConfigured)
            claims.push_back(vote.known);
    }
    std::sort(claims.begin(), claims.end(), std::greater<>());
    const auto configured = qsizetype(claims.size());
    return std::max(configured, claims[size_t(configuredMajority()) - 1]); // at least this many, a majority says
}

qsizetype SentinelVotes::configuredMajority() const
{
    return std::count_if(votes.begin(), votes.end(), [](const SentinelVote &vote) { return vote.isConfigured; }) / 2
            + 1;
}

QSet<QByteArray> SentinelVotes::namers(const SentinelMaster &master) const
{
    QSet<QByteArray> ids;
    for (const SentinelVote &vote : votes) {
        if (vote.named && vote.named->isSame(master))
            ids.insert(vote.id);
    }
    return ids;
}

std::optional<SentinelMaster> SentinelVotes::agreed() const
{
    std::optional<SentinelMaster> found;
    qsizetype spelling = 0;
    for (const SentinelVote &candidate : votes) {
        if (!candidate.named)
            continue;
        qsizetype literally = 0;
        qsizetype inFavour = 0;
        bool isOpposed = false;
        for (const SentinelVote &vote : votes) {
            const bool isNaming = vote.named && vote.named->isSame(*candidate.named);
            inFavour += vote.isConfigured && isNaming ? 1 : 0;
            literally += isNaming && vote.named->endpoint == candidate.named->endpoint ? 1 : 0;
            isOpposed |= vote.isConfigured && !isNaming && (vote.named || vote.isPending);
        }
        const bool isAgreed = inFavour >= configuredMajority()
                || (!isOpposed && namers(*candidate.named).size() >= total() / 2 + 1);
        if (isAgreed && literally > spelling) {
            found = candidate.named;
            spelling = literally;
        }
    }
    return found;
}

std::optional<SentinelMaster> SentinelVotes::unopposed() const
{
    std::optional<SentinelMaster> found;
    for (const SentinelVote &vote : votes) {
        if (!vote.named)
            continue;
        if (found && !found->isSame(*vote.named))
            return std::nullopt;
        found = vote.named;
    }
    return found;
}

bool SentinelVotes::isConfirmed(const SentinelMaster &master) const
{
    const auto agreement = agreed();
    return agreement && agreement->isSame(master) && namers(master).size() >= total() / 2 + 1;
}

} // namespace QtRedis
