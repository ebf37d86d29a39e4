# SPDX-FileCopyrightText: 2026 The QDistLock developers
# SPDX-License-Identifier: MIT

#[[
Finds hiredis with pkg-config if available, otherwise by its header and library, otherwise by the CMake package of
hiredis 1.0 or later.

The static library is preferred. hiredis does not version its symbols, and its structures differ between versions: what
links it statically and hides its symbols is not disturbed by another hiredis in the same process.

Result: Hiredis_FOUND, Hiredis_VERSION and the imported target Hiredis::hiredis,
whose headers are included as <hiredis/…>.
]]

find_package(PkgConfig QUIET)
if(PkgConfig_FOUND)
    pkg_check_modules(PC_Hiredis QUIET hiredis)
endif()

find_path(Hiredis_INCLUDE_DIR
    NAMES hiredis/read.h
    HINTS ${PC_Hiredis_PREFIX}/include
)
find_library(Hiredis_LIBRARY
    NAMES "${CMAKE_STATIC_LIBRARY_PREFIX}hiredis${CMAKE_STATIC_LIBRARY_SUFFIX}" hiredis
    HINTS ${PC_Hiredis_LIBDIR} ${PC_Hiredis_LIBRARY_DIRS}
)
mark_as_advanced(Hiredis_INCLUDE_DIR Hiredis_LIBRARY)

if(Hiredis_INCLUDE_DIR AND EXISTS "${Hiredis_INCLUDE_DIR}/hiredis/hiredis.h")
    set(Hiredis_VERSION "")
    foreach(part MAJOR MINOR PATCH)
        file(STRINGS "${Hiredis_INCLUDE_DIR}/hiredis/hiredis.h" line
            REGEX "^#define HIREDIS_${part} +[0-9]+" LIMIT_COUNT 1)
        string(REGEX MATCH "[0-9]+" number "${line}")
        list(APPEND Hiredis_VERSION ${number})
    endforeach()
    list(JOIN Hiredis_VERSION "." Hiredis_VERSION)
    unset(line)
    unset(number)
endif()

# On Windows only the CMake package says what else must be linked.
if(WIN32 OR NOT Hiredis_LIBRARY OR NOT Hiredis_INCLUDE_DIR)
    find_package(hiredis CONFIG QUIET)
    if(hiredis_FOUND)
        set(Hiredis_VERSION ${hiredis_VERSION})
        set(Hiredis_LIBRARY hiredis::hiredis)
        set(Hiredis_INCLUDE_DIR "${hiredis_DIR}") # the target knows the folder
    endif()
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Hiredis
    REQUIRED_VARS Hiredis_LIBRARY Hiredis_INCLUDE_DIR
    VERSION_VAR Hiredis_VERSION
    REASON_FAILURE_MESSAGE "install hiredis and its headers, on Debian and Ubuntu libhiredis-dev"
)

include(FeatureSummary)
set_package_properties(Hiredis PROPERTIES
    DESCRIPTION "Minimalistic C client for Redis"
    URL "https://github.com/redis/hiredis"
)

if(Hiredis_FOUND AND NOT TARGET Hiredis::hiredis AND TARGET ${Hiredis_LIBRARY})
    add_library(Hiredis::hiredis INTERFACE IMPORTED)
    set_target_properties(Hiredis::hiredis PROPERTIES INTERFACE_LINK_LIBRARIES ${Hiredis_LIBRARY})
elseif(Hiredis_FOUND AND NOT TARGET Hiredis::hiredis)
    add_library(Hiredis::hiredis UNKNOWN IMPORTED)
    set_target_properties(Hiredis::hiredis PROPERTIES
        IMPORTED_LOCATION "${Hiredis_LIBRARY}"
        INTERFACE_INCLUDE_DIRECTORIES "${Hiredis_INCLUDE_DIR}"
    )
endif()
