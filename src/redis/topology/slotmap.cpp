// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "redis/topology/slotmap.h"

#include <QtCore/qhash.h>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>
#include <vector>

namespace QtRedis {

namespace {

/// Bounds for what a node says: a cluster has at most 1000 nodes by its specification.
constexpr qsizetype MostNodes = 4000;
constexpr qsizetype MostOwners = (std::numeric_limits<quint16>::max)();

/// CRC16-XMODEM, a byte at a time.
constexpr std::array<quint16, 256> makeCrcTable()
{
    std::array<quint16, 256> table{};
    for (unsigned byte = 0; byte < 256; ++byte) {
        unsigned crc = byte << 8;
        for (int bit = 0; bit < 8; ++bit)
            crc = crc & 0x8000 ? (crc << 1) ^ 0x1021 : crc << 1;
        table[byte] = quint16(crc & 0xffff);
    }
    return table;
}

constexpr std::array<quint16, 256> CrcTable = makeCrcTable();

std::optional<quint16> portOf(qint64 number)
{
    return number > 0 && number <= (std::numeric_limits<quint16>::max)() ? std::optional(quint16(number))
                                                                         : std::nullopt;
}

/// \a node is [host, port, id, …]. A node that does not know its own host leaves it out.
std::optional<Endpoint> endpointOf(const Reply &node, const Endpoint &asked)
{
    if (node.type != Reply::Array || node.elements.size() < 2)
        return std::nullopt;
    const Reply &host = node.elements.at(0);
    const auto port = portOf(node.elements.at(1).integer);
    if ((host.type != Reply::Bulk && host.type != Reply::Nil) || !port || host.text == "?")
        return std::nullopt;
    return Endpoint{host.text.isEmpty() ? asked.host : QString::fromUtf8(host.text), *port};
}

struct Members
{
    QByteArray self;
    QHash<QByteArray, qint64> epochs; ///< by id
};

/// From CLUSTER NODES, a line for each node:
/// <id> <address> <flags> <master's id> <ping sent> <pong received> <config epoch> <link state> <slot> …
Members parseMembers(const Reply &nodes)
{
    Members members;
    if (nodes.type != Reply::Bulk)
        return members;
    const QList<QByteArray> lines = nodes.text.split('\n');
    for (const QByteArray &line : lines) {
        const QList<QByteArray> fields = line.split(' ');
        if (fields.size() < 8 || members.epochs.size() >= MostNodes)
            continue;
        bool ok = false;
        const qint64 epoch = fields.at(6).toLongLong(&ok);
        members.epochs.insert(fields.at(0), ok ? std::max<qint64>(epoch, 0) : 0);
        if (fields.at(2).split(',').contains("myself"))
            members.self = fields.at(0);
    }
    return members;
}

} // namespace

int SlotMap::slotOf(QByteArrayView key)
{
    const qsizetype open = key.indexOf('{');
    const qsizetype close = open < 0 ? -1 : key.indexOf('}', open + 1);
    if (close > open + 1)
        key = key.sliced(open + 1, close - open - 1);
    quint16 crc = 0;
    for (const char byte : key)
        crc = quint16((crc << 8) ^ CrcTable[((crc >> 8) ^ quint8(byte)) & 0xff]);
    return crc % SlotCount;
}

std::optional<Endpoint> SlotMap::ownerOf(int slot) const
{
    const quint16 index = m_slots.at(slot);
    return index == 0 ? std::nullopt : std::optional(m_owners.at(index - 1).endpoint);
}

qint64 SlotMap::epochOf(int slot) const
{
    const quint16 index = m_slots.at(slot);
    return index == 0 ? -1 : m_owners.at(index - 1).epoch;
}

QSet<quint16> SlotMap::usedIndexes() const
{
    // A set of what all slots have would take ten times as long; it is asked for at each MOVED.
    std::vector<bool> isUsed(size_t(m_owners.size()) + 1);
    for (const quint16 index : m_slots)
        isUsed[index] = true;
    QSet<quint16> used;
    for (size_t index = 1; index < isUsed.size(); ++index) {
        if (isUsed[index])
            used.insert(quint16(index));
    }
    return used;
}

QByteArray SlotMap::idOf(const Endpoint &master) const
{
    const Owner *latest = nullptr;
    const QSet<quint16> used = usedIndexes();
    for (const quint16 index : used) {
        const Owner &owner = m_owners.at(index - 1);
        if (owner.endpoint == master && !owner.id.isEmpty() && (!latest || owner.epoch > latest->epoch))
            latest = &owner;
    }
    return latest ? latest->id : QByteArray();
}

QSet<QByteArray> SlotMap::ids() const
{
    QSet<QByteArray> ids;
    const QSet<quint16> used = usedIndexes();
    for (const quint16 index : used)
        ids.insert(m_owners.at(index - 1).id);
    ids.remove({});
    return ids;
}

QList<Endpoint> SlotMap::masters() const
{
    const QSet<quint16> used = usedIndexes();
    QSet<Endpoint> endpoints;
    for (const quint16 index : used)
        endpoints.insert(m_owners.at(index - 1).endpoint);
    QList<Endpoint> masters(endpoints.cbegin(), endpoints.cend());
    std::sort(masters.begin(), masters.end());
    return masters;
}

int SlotMap::servedSlots() const
{
    return int(SlotCount - std::count(m_slots.cbegin(), m_slots.cend(), quint16(0)));
}

quint16 SlotMap::indexOf(const Owner &owner)
{
    const auto found = std::find_if(m_owners.cbegin(), m_owners.cend(), [&](const Owner &known) {
        return known.epoch == owner.epoch && known.endpoint == owner.endpoint && known.id == owner.id;
    });
    if (found == m_owners.cend() && m_owners.size() >= MostOwners)
        return 0;
    const qsizetype index = found - m_owners.cbegin();
    if (found == m_owners.cend())
        m_owners.append(owner);
    return quint16(index + 1);
}

void SlotMap::setOwner(int first, int last, const Endpoint &owner, qint64 epoch, const QByteArray &id)
{
    const quint16 index = first <= last ? indexOf({owner, epoch, id}) : quint16(0);
    if (index != 0)
        std::fill(m_slots.begin() + first, m_slots.begin() + last + 1, index);
}

bool SlotMap::merge(const SlotMap &view, const QSet<Endpoint> &gone, const QSet<Endpoint> &suspects)
{
    SlotMap merged; // without owners that serve nothing any more
    bool hasChanged = false;
    const bool isEmpty = view.servedSlots() == 0; // and proves nothing
    quint16 index = 0;                            // of the latest slot; neighbours usually have the same owners
    for (int slot = 0; slot < SlotCount; ++slot) {
        const quint16 present = m_slots.at(slot);
        const quint16 its = view.m_slots.at(slot);
        if (slot == 0 || present != m_slots.at(slot - 1) || its != view.m_slots.at(slot - 1)) {
            const Owner *owner = present == 0 ? nullptr : &m_owners.at(present - 1);
            const Owner *const other = its == 0 ? nullptr : &view.m_owners.at(its - 1);
            const bool isSame = owner && other && !owner->id.isEmpty() && owner->id == other->id
                    && owner->epoch == other->epoch && !suspects.contains(owner->endpoint);
            const bool isNewer = owner && other && other->epoch >= owner->epoch && !isSame;
            if (other && (!owner || isNewer || gone.contains(owner->endpoint))) {
                hasChanged |= !owner || owner->endpoint != other->endpoint;
                owner = other;
            } else if (owner && !other && !isEmpty && gone.contains(owner->endpoint)) {
                hasChanged = true;
                owner = nullptr;
            }
            index = owner ? merged.indexOf(*owner) : quint16(0);
        }
        merged.m_slots[slot] = index;
    }
    *this = merged;
    return hasChanged;
}

QSet<Endpoint> SlotMap::confirmedBy(const SlotMap &view) const
{
    QSet<std::pair<quint16, quint16>> pairs; // few, as neighbours usually have the same owner
    for (int slot = 0; slot < SlotCount; ++slot)
        pairs.insert({m_slots.at(slot), view.m_slots.at(slot)});
    QSet<Endpoint> confirmed;
    for (const auto &[present, its] : std::as_const(pairs)) {
        if (present == 0 || its == 0)
            continue;
        const Owner &owner = m_owners.at(present - 1);
        const Owner &other = view.m_owners.at(its - 1);
        if (other.endpoint == owner.endpoint && other.epoch >= owner.epoch)
            confirmed.insert(owner.endpoint);
    }
    return confirmed;
}

bool SlotMap::isContinuedBy(const SlotMap &view, const QByteArray &id) const
{
    bool isServing = false;
    for (int slot = 0; slot < SlotCount; ++slot) {
        const quint16 present = m_slots.at(slot);
        const quint16 its = view.m_slots.at(slot);
        if (present == 0 || its == 0)
            continue;
        const Owner &owner = m_owners.at(present - 1);
        const Owner &other = view.m_owners.at(its - 1);
        const bool isSame = owner.id == other.id;
        if (other.epoch < owner.epoch || (other.epoch == owner.epoch && !isSame))
            return false;
        isServing |= isSame && owner.id == id;
    }
    return isServing;
}

bool ClusterView::isOfClusterOf(const SlotMap &known) const
{
    const QSet<QByteArray> masters = known.ids();
    const auto common = std::count_if(masters.cbegin(), masters.cend(),
                                      [this](const QByteArray &id) { return members.contains(id); });
    return masters.isEmpty() || (self.isEmpty() ? common > 0 : 2 * common > masters.size());
}

bool ClusterView::isOfMasterThatStayed(const SlotMap &known) const
{
    return !self.isEmpty() && known.isContinuedBy(map, self);
}

std::optional<ClusterView> ClusterView::parse(const Reply &slots, const Reply &nodes, const Endpoint &asked)
{
    if (slots.type != Reply::Array)
        return std::nullopt;
    const Members members = parseMembers(nodes);
    ClusterView view;
    view.self = members.self;
    view.members = QSet<QByteArray>(members.epochs.keyBegin(), members.epochs.keyEnd());
    QSet<Endpoint> seen;
    for (const Reply &range : slots.elements) {
        const QList<Reply> &parts = range.elements;
        if (range.type != Reply::Array || parts.size() < 2 || !SlotMap::isSlot(parts.at(0).integer)
            || !SlotMap::isSlot(parts.at(1).integer) || parts.at(0).type != Reply::Integer
            || parts.at(1).type != Reply::Integer)
            return std::nullopt;
        for (qsizetype i = 2; i < parts.size(); ++i) {
            const auto endpoint = endpointOf(parts.at(i), asked);
            const QByteArray id = parts.at(i).elements.value(2).text;
            if (!id.isEmpty())
                view.members.insert(id);
            if (!endpoint)
                continue;
            if (view.nodes.size() < MostNodes && !seen.contains(*endpoint)) {
                seen.insert(*endpoint);
                view.nodes.append(*endpoint);
            }
            if (i > 2)
                continue; // a replica
            const qint64 epoch = members.epochs.value(id, 0);
            view.map.setOwner(int(parts.at(0).integer), int(parts.at(1).integer), *endpoint, epoch, id);
        }
    }
    return view;
}

std::optional<Redirection> Redirection::parse(const QByteArray &error, const Endpoint &from)
{
    const QList<QByteArray> parts = error.split(' ');
    if (parts.size() != 3 || (parts.at(0) != "MOVED" && parts.at(0) != "ASK"))
        return std::nullopt;
    bool isNumber = false;
    bool isPort = false;
    const int slot = parts.at(1).toInt(&isNumber);
    const qsizetype colon = parts.at(2).lastIndexOf(':'); // an IPv6 address has others
    const auto port = portOf(parts.at(2).mid(colon + 1).toLongLong(&isPort));
    if (!isNumber || !SlotMap::isSlot(slot) || colon < 0 || !isPort || !port)
        return std::nullopt;
    const QByteArray host = parts.at(2).left(colon);
    if (host == "?")
        return std::nullopt;
    return Redirection{
            parts.at(0) == "ASK" ? Ask : Moved, slot, {host.isEmpty() ? from.host : QString::fromUtf8(host), *port}};
}

} // namespace QtRedis
