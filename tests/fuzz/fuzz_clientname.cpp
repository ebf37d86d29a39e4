// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// The input is the name that another client has given to its connection. Only an identity of the documented form is
// shown to people, and it has the same name again.

#include "fuzz.h"

#include "engine/redis/clientname.h"

#include <algorithm>

using namespace QDistLock;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const auto name = ClientName::parse(Fuzz::bytes(data, size));
    if (!name)
        return 0;
    FUZZ_CHECK(!name->client.isEmpty());
    const Identity &identity = name->identity;
    FUZZ_CHECK(identity.isEmpty() == (identity.pid == 0) && identity.pid >= 0);
    for (const QString &part : {identity.host, identity.application}) {
        FUZZ_CHECK(part.size() <= Identity::LongestPart);
        FUZZ_CHECK(std::all_of(part.begin(), part.end(), [](QChar c) { return Identity::isAllowed(c.unicode()); }));
    }
    const QByteArray again = name->toByteArray();
    FUZZ_CHECK(again.size() <= ClientName::LongestName || name->client.size() > 16);
    const auto parsed = ClientName::parse(again);
    FUZZ_CHECK(parsed && parsed->client == name->client && parsed->identity.pid == identity.pid);
    FUZZ_CHECK(identity.host.startsWith(parsed->identity.host));
    FUZZ_CHECK(identity.application.startsWith(parsed->identity.application));
    FUZZ_CHECK(parsed->toByteArray() == again);
    return 0;
}
