# SPDX-FileCopyrightText: 2026 The QDistLock developers
# SPDX-License-Identifier: MIT

#[[
qdistlock_embed_lua(<target> <file.lua>…)

Adds two generated headers to the target, and generates them again when a .lua file changes:

- "scripts.h" declares `QDistLock::Scripts::acquire` for the file acquire.lua, with its text and SHA1. If the script
  publishes to a client's channel, `QDistLock::Scripts::Sharded::acquire` is the same for a Redis Cluster: it publishes to
  the client's sharded channel in the slot of the lock's queue, which the script has in the variable `queue`.
- "engine/protocolconstants.h" has the texts and whole numbers of constants.lua: `CLAIM_TTL` becomes
  `QDistLock::Protocol::ClaimTtl`, a duration if its comment begins with "ms".

A line `--#include slots.lua` is replaced by the code of that file, from the same folder. Comments and blank lines are
left out, because the text is sent to servers that do not have the script.
]]

if(NOT CMAKE_SCRIPT_MODE_FILE)
    set(_qdistlock_embed_lua "${CMAKE_CURRENT_LIST_FILE}")

    function(qdistlock_embed_lua target)
        set(directory "${CMAKE_CURRENT_BINARY_DIR}/scripts")
        set(generated "${directory}/scripts.h" "${directory}/scripts.cpp" "${directory}/engine/protocolconstants.h")
        set(files "")
        foreach(file IN LISTS ARGN)
            cmake_path(ABSOLUTE_PATH file OUTPUT_VARIABLE file)
            list(APPEND files "${file}")
        endforeach()
        add_custom_command(
            OUTPUT ${generated}
            COMMAND ${CMAKE_COMMAND} "-DOUTPUT=${directory}" "-DFILES=${files}" -P "${_qdistlock_embed_lua}"
            DEPENDS ${files} "${_qdistlock_embed_lua}"
            COMMENT "Embedding Lua scripts"
            VERBATIM
        )
        target_sources(${target} PRIVATE ${generated})
        set_source_files_properties(${generated} PROPERTIES SKIP_AUTOMOC ON)
        target_include_directories(${target} PUBLIC "$<BUILD_INTERFACE:${directory}>")
    endfunction()
    return()
endif()

cmake_policy(VERSION 3.22)

set(constants "")
set(declarations "")
set(definitions "")
set(sharded_declarations "")
set(sharded_definitions "")
foreach(file IN LISTS FILES)
    cmake_path(GET file STEM name)
    if(NOT name MATCHES "^[a-z][a-z_0-9]*$")
        message(FATAL_ERROR "${file}: the name must be a C++ identifier")
    endif()
    if(name STREQUAL "common" OR name STREQUAL "slots") # only parts of others
        continue()
    endif()
    if(name STREQUAL "constants")
        file(STRINGS "${file}" lines REGEX "^local [A-Z_]+ = ('[^']*'|[0-9]+)( +--|$)")
        foreach(line IN LISTS lines)
            string(REGEX MATCH "^local ([A-Z_]+) = ('[^']*'|[0-9]+) *(-- (ms)?)?" match "${line}")
            set(value "${CMAKE_MATCH_2}")
            set(isDuration "${CMAKE_MATCH_4}")
            string(TOLOWER "${CMAKE_MATCH_1}" words)
            string(REPLACE "_" ";" words "${words}")
            set(constant "")
            foreach(word IN LISTS words)
                string(SUBSTRING "${word}" 0 1 initial)
                string(SUBSTRING "${word}" 1 -1 rest)
                string(TOUPPER "${initial}" initial)
                string(APPEND constant "${initial}${rest}")
            endforeach()
            if(isDuration)
                string(REPLACE "'" "" value "${value}")
                string(APPEND constants "inline constexpr std::chrono::milliseconds ${constant}(${value});\n")
            else()
                string(REPLACE "'" "\"" value "${value}")
                string(APPEND constants "inline constexpr auto ${constant} = ${value};\n")
            endif()
        endforeach()
        continue()
    endif()
    file(READ "${file}" text)
    while(text MATCHES "--#include ([a-z_]+\\.lua)\n")
        set(include "${CMAKE_MATCH_1}")
        cmake_path(GET file PARENT_PATH directory)
        file(READ "${directory}/${include}" included)
        string(REPLACE "--#include ${include}\n" "${included}" text "${text}")
    endwhile()
    string(REPLACE "\r\n" "\n" text "\n${text}")
    string(REGEX REPLACE "\n *--[^\n]*" "" text "${text}")
    string(REGEX REPLACE "\n+" "\n" text "${text}")
    string(FIND "${text}" ")lua\"" end)
    if(NOT end EQUAL -1)
        message(FATAL_ERROR "${file}: contains )lua\", which would end the C++ literal")
    endif()
    string(SHA1 sha1 "${text}")
    string(APPEND declarations "extern const QtRedis::Script ${name};\n")
    string(APPEND definitions "const QtRedis::Script ${name}{\"${name}\", R\"lua(${text})lua\",\n    \"${sha1}\"};\n\n")
    string(REGEX REPLACE "'PUBLISH', CHANNELS \\.\\. ([a-zA-Z]+)"
        "'SPUBLISH', CHANNELS .. \\1 .. ':' .. string.match(queue, '{[^}]+}')" sharded "${text}")
    if(NOT sharded STREQUAL text)
        string(SHA1 sha1 "${sharded}")
        string(APPEND sharded_declarations "extern const QtRedis::Script ${name};\n")
        string(APPEND sharded_definitions
            "const QtRedis::Script ${name}{\"${name}\", R\"lua(${sharded})lua\",\n    \"${sha1}\"};\n\n")
    endif()
endforeach()

file(MAKE_DIRECTORY "${OUTPUT}/engine")
file(CONFIGURE OUTPUT "${OUTPUT}/scripts.h" @ONLY NEWLINE_STYLE UNIX CONTENT
"// Generated from src/engine/redis/scripts; edit the .lua files.
#pragma once

#include \"redis/script.h\"

namespace QDistLock::Scripts {

@declarations@
namespace Sharded {

@sharded_declarations@
} // namespace Sharded
} // namespace QDistLock::Scripts
")
file(CONFIGURE OUTPUT "${OUTPUT}/engine/protocolconstants.h" @ONLY NEWLINE_STYLE UNIX CONTENT
"// Generated from src/engine/redis/scripts/constants.lua, where each constant is explained.
#pragma once

#include <chrono>

namespace QDistLock::Protocol {

@constants@
} // namespace QDistLock::Protocol
")
file(CONFIGURE OUTPUT "${OUTPUT}/scripts.cpp" @ONLY NEWLINE_STYLE UNIX CONTENT
"// Generated from src/engine/redis/scripts; edit the .lua files.
#include \"scripts.h\"

namespace QDistLock::Scripts {

@definitions@namespace Sharded {

@sharded_definitions@} // namespace Sharded
} // namespace QDistLock::Scripts
")
# file(CONFIGURE) does not write a file that would not change; a new time shows the build that it is up to date.
file(TOUCH_NOCREATE "${OUTPUT}/scripts.h" "${OUTPUT}/scripts.cpp")
