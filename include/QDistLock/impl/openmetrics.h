// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#ifndef QDISTLOCK_IMPL_OPENMETRICS_H
#define QDISTLOCK_IMPL_OPENMETRICS_H

#include <QDistLock/qdistlock_export.h>

#include <QtCore/qbytearray.h>
#include <QtCore/qstring.h>

namespace QDistLock::Detail {

/*!
    Writes the text format of OpenMetrics 1.0 (https://github.com/prometheus/OpenMetrics), metric by metric.

    Readers of the older text format of Prometheus understand a text of gauges, too.
*/
class QDISTLOCK_EXPORT OpenMetricsWriter
{
public:
    enum Type { Counter, Gauge, Histogram };

    /// Room for a text of this size.
    explicit OpenMetricsWriter(qsizetype size = 0) { m_text.reserve(size); }

    /// The metric that the samples belong to which follow. \a name ends with its unit if it has one; that of a counter
    /// does not end with `_total`. \a help needs no escape.
    void beginMetric(const char *name, Type type, const char *help);
    /// \a name="value", escaped. A sample has one or more of these, separated by commas.
    static QByteArray label(const char *name, const QString &value);
    /// One value of the metric: of a counter its total.
    void addSample(QByteArrayView labels, quint64 value);
    /// One value of a histogram: \a suffix is _bucket, _count or _sum.
    void addSample(QByteArrayView suffix, QByteArrayView labels, QByteArrayView value);

    /// The complete text. Nothing can be added to it.
    QByteArray finish();

private:
    QByteArray m_text;
    QByteArray m_name;
    Type m_type = Gauge;
};

} // namespace QDistLock::Detail

#endif
