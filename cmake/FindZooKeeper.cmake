# SPDX-FileCopyrightText: 2026 The QDistLock developers
# SPDX-License-Identifier: MIT

#[[
Finds the headers of the C client of ZooKeeper, 3.5 or later. Its library for event loops, libzookeeper_st, is loaded
when a program uses it, so it need not be there.

Result: ZooKeeper_FOUND and ZooKeeper_INCLUDE_DIR, for <zookeeper/zookeeper.h>.
]]

find_path(ZooKeeper_INCLUDE_DIR NAMES zookeeper/zookeeper.h)
mark_as_advanced(ZooKeeper_INCLUDE_DIR)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(ZooKeeper REQUIRED_VARS ZooKeeper_INCLUDE_DIR)

include(FeatureSummary)
set_package_properties(ZooKeeper PROPERTIES
    DESCRIPTION "C client of ZooKeeper"
    URL "https://zookeeper.apache.org"
)
