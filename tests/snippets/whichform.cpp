// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// The code blocks of docs/which-form.md: compiled, never run.

#include <QDistLock/Annotations>

#include <memory>

using namespace QDistLock;
using namespace Qt::StringLiterals;

namespace {

struct Data
{
};
struct Report
{
};
QFuture<Data> fetch()
{
    return {};
}
Report makeReport(const Data &)
{
    return {};
}

[[maybe_unused]] void continuationsUnderTheLock()
{
    //! [continuations]
    QFuture<Report> report = withLock(u"report:daily"_s, [] {
        auto scope = std::make_shared<ScopedLock>(u"report:daily"_s); // re-enters
        return fetch().then([scope](const Data &data) mutable {
            const auto last = std::move(scope); // ends with this function
            return makeReport(data);            // may use scopes of that name
        });
    });
    //! [continuations]
}

} // namespace
