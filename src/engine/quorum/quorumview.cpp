// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "engine/quorum/quorumview.h"

#include "engine/quorum/delayedcalls.h"

#include <QtCore/qhash.h>
#include <QtCore/qset.h>

#include <algorithm>
#include <memory>
#include <utility>

using namespace Qt::StringLiterals;

using namespace std::chrono_literals;
using std::chrono::milliseconds;

namespace QDistLock {

namespace {

constexpr milliseconds SilenceLimit = 500ms;

/// A key without a time to live (negative) lives longest.
milliseconds timeLeft(const LockInfo &info)
{
    return info.remaining < 0ms ? (milliseconds::max)() : info.remaining;
}

bool isSameHolder(const LockInfo &a, const LockInfo &b)
{
    return a.foreign == b.foreign && a.holder.id == b.holder.id;
}

} // namespace

template<typename Value>
struct QuorumView::Collection
{
    std::function<void(const EngineError &, const QList<std::pair<int, Value>> &)> completion; ///< null at the end
    QList<std::pair<int, Value>> values = {};
    QList<EngineError> errors = {};
    QSet<int> awaited = {};
    bool isTimeUp = false; ///< a majority suffices

    void finishIfComplete(const ServerGroup &nodes)
    {
        const bool isMajority = values.size() >= nodes.majority();
        const bool isWaiting = std::any_of(awaited.cbegin(), awaited.cend(), [&](int node) {
            return !isMajority || (!isTimeUp && !nodes.at(node).isSilent());
        });
        if (!completion || isWaiting)
            return;
        const auto done = std::exchange(completion, nullptr);
        done(isMajority ? EngineError() : nodes.tooFew(int(values.size()), u"have replied"_s, errors), values);
    }
};

template<typename Value>
void QuorumView::collect(
        std::function<void(int node, std::function<void(const EngineError &, const Value &)> reply)> ask,
        std::function<void(const EngineError &, const QList<std::pair<int, Value>> &)> completion)
{
    auto collection = std::make_shared<Collection<Value>>(Collection<Value>{std::move(completion)});
    for (int node = 0; node < m_nodes->size(); ++node) {
        if (m_nodes->at(node).isConnected())
            collection->awaited.insert(node);
        else
            collection->errors.append(m_nodes->at(node).error());
    }
    const auto finish = [nodes = m_nodes, collection] { collection->finishIfComplete(*nodes); };
    for (int node = 0; node < m_nodes->size(); ++node) {
        if (!collection->awaited.contains(node))
            continue;
        ask(node, [=, asked = &m_nodes->at(node)](const EngineError &error, const Value &value) {
            if (asked->isClosed())
                return;
            collection->awaited.remove(node);
            if (error)
                collection->errors.append(error);
            else
                collection->values.append({node, value});
            finish();
        });
    }
    if (collection->awaited.isEmpty())
        m_delayedCalls->add(0ms, finish);
    m_delayedCalls->add(SilenceLimit, [=] {
        collection->isTimeUp = true;
        finish();
    });
}

LockInfo QuorumView::merged(const QList<std::pair<int, LockInfo>> &views, int replies) const
{
    LockInfo result;
    result.name = views.first().second.name;
    // The greatest value that a majority of the nodes has reached. The holder's fencing token is at a majority, and a
    // higher one may be at a minority. The lock is held until a majority has forgotten it.
    const auto ofMajority = [this](auto values) {
        std::sort(values.begin(), values.end(), std::greater<>());
        return values.at(std::min<qsizetype>(values.size(), m_nodes->majority()) - 1);
    };
    QList<qint64> fencingTokens;
    const LockInfo *holder = nullptr;
    int most = 0;
    for (const auto &[node, view] : views) {
        fencingTokens.append(view.fencingToken);
        result.queueLength = std::max(result.queueLength, view.queueLength);
        const int votes = int(std::count_if(views.cbegin(), views.cend(), [&view = view](const auto &other) {
            return other.second.held && isSameHolder(other.second, view);
        }));
        if (view.held && votes > most) {
            most = votes;
            holder = &view;
        }
    }
    result.fencingToken = ofMajority(fencingTokens);
    if (!holder || most + m_nodes->size() - replies < m_nodes->majority())
        return result;
    QList<milliseconds> times;
    for (const auto &[node, view] : views) {
        if (!view.held || !isSameHolder(view, *holder))
            continue;
        times.append(timeLeft(view));
        const bool knowsMore = view.holder.connected && (!result.holder.connected || result.holder.host.isEmpty());
        if (result.held && !knowsMore)
            continue;
        result.held = true;
        result.foreign = view.foreign;
        result.holder = view.holder;
    }
    result.remaining = ofMajority(times);
    if (result.remaining == (milliseconds::max)())
        result.remaining = -1ms;
    return result;
}

void QuorumView::inspect(const LockId &lock, std::function<void(const EngineError &, const LockInfo &)> completion)
{
    collect<LockInfo>([this, lock](int node, auto reply) { m_nodes->at(node).lane().inspect(lock, std::move(reply)); },
                      [this, completion](const EngineError &error, const QList<std::pair<int, LockInfo>> &views) {
                          completion(error, error ? LockInfo() : merged(views, int(views.size())));
                      });
}

void QuorumView::waiters(const LockId &lock, int atMost,
                         std::function<void(const EngineError &, const QList<LockWaiter> &)> completion)
{
    collect<QList<LockWaiter>>(
            [this, lock, atMost](int node, auto reply) {
                m_nodes->at(node).lane().waiters(lock, atMost, std::move(reply));
            },
            [completion](const EngineError &error, const QList<std::pair<int, QList<LockWaiter>>> &queues) {
                QList<LockWaiter> longest;
                for (const auto &[node, queue] : queues) {
                    if (queue.size() > longest.size())
                        longest = queue;
                }
                completion(error, error ? QList<LockWaiter>() : longest);
            });
}

void QuorumView::list(const QString &prefix, const QString &pattern,
                      std::function<void(const EngineError &, const QList<LockInfo> &)> completion)
{
    collect<QList<LockInfo>>(
            [this, prefix, pattern](int node, auto reply) {
                m_nodes->at(node).lane().list(prefix, pattern, std::move(reply));
            },
            [this, completion](const EngineError &error, const QList<std::pair<int, QList<LockInfo>>> &lists) {
                if (error)
                    return completion(error, {});
                QHash<QString, QList<std::pair<int, LockInfo>>> views;
                for (const auto &[node, list] : lists) {
                    for (const LockInfo &info : list)
                        views[info.name].append({node, info});
                }
                QList<LockInfo> result;
                for (const auto &ofLock : std::as_const(views)) {
                    const LockInfo info = merged(ofLock, int(lists.size()));
                    if (info.held)
                        result.append(info);
                }
                completion({}, result);
            });
}

} // namespace QDistLock
