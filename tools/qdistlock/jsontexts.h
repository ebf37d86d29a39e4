// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "options.h"

namespace Cli {

/// One kind of JSON object, as the man page explains it. All texts are UTF-8.
struct JsonObjectText
{
    const char *schema; ///< its name among the definitions of docs/qdistlock.schema.json, which has the same members
    const char *title;
    QList<Explanation> members;
};

/// All objects that --json prints. A test compares them with the schema.
const QList<JsonObjectText> &jsonObjects();

} // namespace Cli
