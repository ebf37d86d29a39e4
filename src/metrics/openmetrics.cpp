// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include <QDistLock/impl/openmetrics.h>
#include <QDistLock/lockmetrics.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <initializer_list>
#include <vector>

using namespace Qt::StringLiterals;

namespace QDistLock {

namespace Detail {

void OpenMetricsWriter::beginMetric(const char *name, Type type, const char *help)
{
    static constexpr const char *Types[] = {"counter", "gauge", "histogram"};
    m_name = name;
    m_type = type;
    m_text += "# TYPE " + m_name + ' ' + Types[type] + '\n';
    if (m_name.endsWith("_seconds"))
        m_text += "# UNIT " + m_name + " seconds\n";
    m_text += "# HELP " + m_name + ' ' + help + '\n';
}

QByteArray OpenMetricsWriter::label(const char *name, const QString &value)
{
    QByteArray text = value.toUtf8();
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    return QByteArray(name) + "=\"" + text + '"';
}

void OpenMetricsWriter::addSample(QByteArrayView labels, quint64 value)
{
    addSample(m_type == Counter ? "_total" : "", labels, QByteArray::number(value));
}

void OpenMetricsWriter::addSample(QByteArrayView suffix, QByteArrayView labels, QByteArrayView value)
{
    m_text += m_name;
    m_text += suffix;
    m_text += '{';
    m_text += labels;
    m_text += "} ";
    m_text += value;
    m_text += '\n';
}

QByteArray OpenMetricsWriter::finish()
{
    return m_text + "# EOF\n";
}

} // namespace Detail

using Detail::OpenMetricsWriter;

namespace {

QByteArray seconds(std::chrono::nanoseconds duration)
{
    return QByteArray::number(std::chrono::duration<double>(duration).count(), 'g', 12);
}

/// For each range of a histogram its bound, as a label.
std::array<QByteArray, LockHistogram::Bounds.size() + 1> makeBoundLabels()
{
    std::array<QByteArray, LockHistogram::Bounds.size() + 1> labels;
    for (size_t i = 0; i < LockHistogram::Bounds.size(); ++i) {
        // With a point, so that all readers spell it alike.
        const QByteArray bound = seconds(LockHistogram::Bounds[i]);
        labels[i] = ",le=\"" + bound + (bound.contains('.') ? "\"" : ".0\"");
    }
    labels.back() = ",le=\"+Inf\"";
    return labels;
}

/// A group, and its label.
struct Group
{
    LockStatistics statistics;
    QByteArray label;
};

void addHistogram(OpenMetricsWriter *writer, const char *name, const char *help, const std::vector<Group> &groups,
                  LockHistogram LockStatistics::*histogram)
{
    writer->beginMetric(name, OpenMetricsWriter::Histogram, help);
    static const auto boundLabels = makeBoundLabels();
    for (const Group &group : groups) {
        const LockHistogram &values = group.statistics.*histogram;
        quint64 count = 0;
        for (size_t i = 0; i < values.counts.size(); ++i) {
            count += values.counts[i];
            writer->addSample("_bucket", group.label + boundLabels[i], QByteArray::number(count));
        }
        writer->addSample("_count", group.label, QByteArray::number(count));
        writer->addSample("_sum", group.label, seconds(values.sum));
    }
}

/// One of the values of a metric: they differ by a label, unless there is one only.
struct Value
{
    const char *label;
    quint64 (*of)(const LockStatistics &group);
};

void add(OpenMetricsWriter *writer, const char *name, OpenMetricsWriter::Type type, const char *help,
         const std::vector<Group> &groups, std::initializer_list<Value> values)
{
    writer->beginMetric(name, type, help);
    for (const Group &group : groups) {
        for (const Value &value : values)
            writer->addSample(group.label + value.label, value.of(group.statistics));
    }
}

} // namespace

namespace LockMetrics {

QByteArray openMetricsText()
{
    using Writer = OpenMetricsWriter;
    using Statistics = const LockStatistics &;
    std::vector<Group> groups;
    qsizetype length = 0;
    const auto all = snapshot();
    for (const LockStatistics &statistics : all) {
        groups.push_back({statistics, Writer::label("group", statistics.group)});
        length += groups.back().label.size();
    }

    Writer writer(2000 + 35 * (length + 60 * qsizetype(groups.size()))); // 35 samples for each group
    addHistogram(&writer, "qdistlock_acquire_wait_seconds",
                 "How long it took to acquire a lock, of acquires that got it.", groups, &LockStatistics::wait);
    addHistogram(&writer, "qdistlock_hold_seconds", "How long a lock was held.", groups, &LockStatistics::hold);
    add(&writer, "qdistlock_acquired", Writer::Counter, "Locks acquired.", groups,
        {{"", [](Statistics group) { return group.acquired; }}});
    add(&writer, "qdistlock_contended", Writer::Counter, "Locks acquired that somebody else held at first.", groups,
        {{"", [](Statistics group) { return group.contended; }}});
    add(&writer, "qdistlock_failed", Writer::Counter, "Acquires that did not get the lock.", groups,
        {{",reason=\"busy\"", [](Statistics group) { return group.busy; }},
         {",reason=\"timeout\"", [](Statistics group) { return group.timedOut; }},
         {",reason=\"cancelled\"", [](Statistics group) { return group.cancelled; }},
         {",reason=\"error\"", [](Statistics group) { return group.errors; }}});
    add(&writer, "qdistlock_released", Writer::Counter, "Locks released.", groups,
        {{"", [](Statistics group) { return group.released; }}});
    add(&writer, "qdistlock_lost", Writer::Counter, "Locks lost while they were held.", groups,
        {{",reason=\"lease_expired\"", [](Statistics group) { return group.leaseExpired; }},
         {",reason=\"stolen\"", [](Statistics group) { return group.stolen; }},
         {",reason=\"deleted\"", [](Statistics group) { return group.deleted; }},
         {",reason=\"forced_release\"", [](Statistics group) { return group.forcedReleases; }}});
    add(&writer, "qdistlock_renewed", Writer::Counter, "Renewals confirmed by the server.", groups,
        {{"", [](Statistics group) { return group.renewed; }}});
    add(&writer, "qdistlock_at_risk", Writer::Counter,
        "Times that two thirds of a lease had passed without a confirmed renewal.", groups,
        {{"", [](Statistics group) { return group.atRisk; }}});
    add(&writer, "qdistlock_held", Writer::Gauge, "Locks held now.", groups,
        {{"", [](Statistics group) { return quint64(std::max(0, group.held)); }}});
    add(&writer, "qdistlock_waiting", Writer::Gauge, "Locks being acquired now.", groups,
        {{"", [](Statistics group) { return quint64(std::max(0, group.waiting)); }}});
    return writer.finish();
}

QByteArray openMetricsContentType()
{
    return "application/openmetrics-text; version=1.0.0; charset=utf-8"_ba;
}

} // namespace LockMetrics

} // namespace QDistLock
