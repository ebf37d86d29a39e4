# SPDX-FileCopyrightText: 2026 The QDistLock developers
# SPDX-License-Identifier: MIT

#[[
qdistlock_embed_lua(<target> <file.lua>…)

Adds to the target a generated "scripts.h" that declares, for each acquire.lua,
`QDistLock::Scripts::acquire` with the text and its SHA1. Made anew when a .lua file changes.
Texts and whole numbers in constants.lua become constants there: `QDistLock::Scripts::CLAIM_TTL`.
A line `--#include common.lua` stands for the code of that file beside it; comments and blank lines are left
out, since a server that lost its scripts is sent the text.
]]

if(NOT CMAKE_SCRIPT_MODE_FILE)
    set(_qdistlock_embed_lua "${CMAKE_CURRENT_LIST_FILE}")

    function(qdistlock_embed_lua target)
        set(directory "${CMAKE_CURRENT_BINARY_DIR}/scripts")
        set(files "")
        foreach(file IN LISTS ARGN)
            cmake_path(ABSOLUTE_PATH file OUTPUT_VARIABLE file)
            list(APPEND files "${file}")
        endforeach()
        add_custom_command(
            OUTPUT "${directory}/scripts.h" "${directory}/scripts.cpp"
            COMMAND ${CMAKE_COMMAND} "-DOUTPUT=${directory}" "-DFILES=${files}" -P "${_qdistlock_embed_lua}"
            DEPENDS ${files} "${_qdistlock_embed_lua}"
            COMMENT "Embedding Lua scripts"
            VERBATIM
        )
        target_sources(${target} PRIVATE "${directory}/scripts.h" "${directory}/scripts.cpp")
        set_source_files_properties("${directory}/scripts.h" "${directory}/scripts.cpp" PROPERTIES SKIP_AUTOMOC ON)
        target_include_directories(${target} PUBLIC "$<BUILD_INTERFACE:${directory}>")
    endfunction()
    return()
endif()

cmake_policy(VERSION 3.22)

set(constants "")
set(declarations "")
set(definitions "")
foreach(file IN LISTS FILES)
    cmake_path(GET file STEM name)
    if(NOT name MATCHES "^[a-z][a-z_0-9]*$")
        message(FATAL_ERROR "${file}: the name must be a C++ identifier")
    endif()
    if(name STREQUAL "common")
        continue()
    endif()
    if(name STREQUAL "constants")
        file(STRINGS "${file}" lines REGEX "^local [A-Z_]+ = ('[^']*'|[0-9]+)( +--|$)")
        foreach(line IN LISTS lines)
            string(REGEX REPLACE "^local ([A-Z_]+) = ('[^']*'|[0-9]+)( .*|$)" "inline constexpr auto \\1 = \\2;\n" line "${line}")
            string(REPLACE "'" "\"" line "${line}")
            string(APPEND constants "${line}")
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
        message(FATAL_ERROR "${file}: holds the mark that ends the literal")
    endif()
    string(SHA1 sha1 "${text}")
    string(APPEND declarations "extern const QtRedis::Script ${name};\n")
    string(APPEND definitions "const QtRedis::Script ${name}{\"${name}\", R\"lua(${text})lua\",\n    \"${sha1}\"};\n\n")
endforeach()

file(MAKE_DIRECTORY "${OUTPUT}")
file(CONFIGURE OUTPUT "${OUTPUT}/scripts.h" @ONLY NEWLINE_STYLE UNIX CONTENT
"// Generated from src/scripts; edit the .lua files.
#pragma once

#include \"redis/script.h\"

namespace QDistLock::Scripts {

@constants@
@declarations@
} // namespace QDistLock::Scripts
")
file(CONFIGURE OUTPUT "${OUTPUT}/scripts.cpp" @ONLY NEWLINE_STYLE UNIX CONTENT
"// Generated from src/scripts; edit the .lua files.
#include \"scripts.h\"

namespace QDistLock::Scripts {

@definitions@} // namespace QDistLock::Scripts
")
# file(CONFIGURE) leaves a file that would not change; the build must see that it is up to date.
file(TOUCH_NOCREATE "${OUTPUT}/scripts.h" "${OUTPUT}/scripts.cpp")
