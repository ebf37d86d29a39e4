// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// The input is what a node of a cluster sends: the replies to CLUSTER SLOTS and CLUSTER NODES, and as text a
// redirection and a key.

#include "fuzz.h"

#include "redis/codec.h"
#include "redis/topology/slotmap.h"

using namespace Qt::StringLiterals;

using namespace QtRedis;

namespace {

const Endpoint Asked{u"asked"_s, 1};

void checkMap(const SlotMap &map)
{
    int served = 0;
    for (int slot = 0; slot < SlotMap::SlotCount; ++slot) {
        const auto owner = map.ownerOf(slot);
        FUZZ_CHECK(owner.has_value() == (map.epochOf(slot) >= 0));
        FUZZ_CHECK(!owner || (owner->port > 0 && !owner->host.isEmpty()));
        served += owner ? 1 : 0;
    }
    FUZZ_CHECK(map.servedSlots() == served);
    FUZZ_CHECK(map.masters().isEmpty() == (served == 0));
}

void checkView(const ClusterView &view)
{
    checkMap(view.map);
    for (const Endpoint &master : view.map.masters())
        FUZZ_CHECK(view.nodes.contains(master));
    FUZZ_CHECK(view.self.isEmpty() || view.members.contains(view.self));
    // A view is not newer than itself, and another one changes only what is not newer.
    SlotMap map;
    FUZZ_CHECK(map.merge(view.map, {}) == (view.map.servedSlots() > 0));
    FUZZ_CHECK(!map.merge(view.map, {}));
    FUZZ_CHECK(map.masters() == view.map.masters());
    SlotMap newer = map;
    newer.setOwner(7, {u"newer"_s, 1}, map.epochOf(7) + 1);
    newer.merge(view.map, {});
    FUZZ_CHECK(newer.ownerOf(7) == (Endpoint{u"newer"_s, 1}));
    checkMap(newer);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const QByteArray input(reinterpret_cast<const char *>(data), qsizetype(size));
    ReplyReader reader;
    reader.feed(input.constData(), input.size());
    Reply slots, nodes;
    if (reader.next(&slots)) {
        reader.next(&nodes);
        if (const auto view = ClusterView::parse(slots, nodes, Asked))
            checkView(*view);
    }
    if (const auto redirection = Redirection::parse(input, Asked))
        FUZZ_CHECK(SlotMap::isSlot(redirection->slot) && redirection->endpoint.port > 0);
    FUZZ_CHECK(SlotMap::isSlot(SlotMap::slotOf(input)));
    return 0;
}
