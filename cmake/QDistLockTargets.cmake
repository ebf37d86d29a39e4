# SPDX-FileCopyrightText: 2026 The QDistLock developers
# SPDX-License-Identifier: MIT

# Compile settings of all targets of this project.
function(qdistlock_set_target_defaults target)
    target_compile_features(${target} PUBLIC cxx_std_17)
    set_target_properties(${target} PROPERTIES
        AUTOMOC ON
        CXX_EXTENSIONS OFF
        CXX_VISIBILITY_PRESET hidden
        VISIBILITY_INLINES_HIDDEN ON
        POSITION_INDEPENDENT_CODE ON
    )
    target_compile_definitions(${target} PRIVATE
        QT_NO_CAST_FROM_ASCII
        QT_NO_CAST_FROM_BYTEARRAY
        QT_NO_CAST_TO_ASCII
        QT_NO_FOREACH
        QT_NO_KEYWORDS
        QT_NO_NARROWING_CONVERSIONS_IN_CONNECT
        QT_NO_SIGNALS_SLOTS_KEYWORDS
        QT_NO_URL_CAST_FROM_STRING
        QT_STRICT_ITERATORS
    )
    if(MSVC)
        target_compile_options(${target} PRIVATE /W4 $<$<BOOL:${QDISTLOCK_WARNINGS_AS_ERRORS}>:/WX>)
    else()
        target_compile_options(${target} PRIVATE
            -Wall -Wextra -Wpedantic -Wconversion
            # Clang warns about Qt's qCDebug() and its generated QML loaders.
            $<$<CXX_COMPILER_ID:Clang,AppleClang>:-Wno-gnu-zero-variadic-macro-arguments>
            $<$<BOOL:${QDISTLOCK_WARNINGS_AS_ERRORS}>:-Werror>
        )
    endif()
endfunction()

# qdistlock_add_library(<name> <STATIC|SHARED|OBJECT|MODULE> <source>…)
function(qdistlock_add_library name type)
    add_library(${name} ${type} ${ARGN})
    qdistlock_set_target_defaults(${name})
    set_target_properties(${name} PROPERTIES LINKER_LANGUAGE CXX)
endfunction()

# qdistlock_add_executable(<name> <source>…)
function(qdistlock_add_executable name)
    add_executable(${name} ${ARGN})
    qdistlock_set_target_defaults(${name})
    if(TARGET qdistlock_tsan)
        target_sources(${name} PRIVATE $<TARGET_OBJECTS:qdistlock_tsan>)
        target_link_libraries(${name} PRIVATE Qt6::Core)
    endif()
endfunction()

# qdistlock_library_rpath(<variable> <folder>): where a program or plugin in this folder of the installation finds the
# library, wherever the prefix is.
function(qdistlock_library_rpath variable folder)
    if(IS_ABSOLUTE "${folder}" OR IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}")
        set(rpath "${CMAKE_INSTALL_FULL_LIBDIR}")
    else()
        file(RELATIVE_PATH rpath "/prefix/${folder}" "/prefix/${CMAKE_INSTALL_LIBDIR}")
        string(PREPEND rpath "$ORIGIN/")
    endif()
    set(${variable} "${rpath}" PARENT_SCOPE)
endfunction()

# qdistlock_install_program(<name> <component>)
function(qdistlock_install_program name component)
    qdistlock_library_rpath(rpath "${CMAKE_INSTALL_BINDIR}")
    set_target_properties(${name} PROPERTIES INSTALL_RPATH "${rpath}")
    install(TARGETS ${name} RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT ${component})
endfunction()

# qdistlock_add_test(<name> LABEL <unit|integration|qml|chaos|fuzz>
#     [KIND <timing|proof>]   of all functions; without it, the tags in the source tell: see tests/support/testkinds.h
#     [SOURCES <source>…]     default: <name>.cpp
#     [LIBRARIES <target>…]   default: qdistlock_core_testing qdistlock_test_support Qt6::Test
#     [DEPENDS <target>…]     programs the test starts
#     [DEFINITIONS <macro>…]
#     [LAUNCHER <argument>…]  the command that starts the test program
#     [ARGUMENTS <argument>…]
#     [TIMEOUT <seconds>]     default: 120
#     [PROCESSORS <count>]    it counts as that many tests that run at once; default: 1
#     [THREADS]               its ordinary functions also run under ThreadSanitizer
# )
# One program; for each kind of functions in it, a test: <name>, <name>_timing, <name>_proof.
function(qdistlock_add_test name)
    cmake_parse_arguments(PARSE_ARGV 1 arg
        "THREADS" "LABEL;KIND;PROCESSORS;TIMEOUT" "SOURCES;LIBRARIES;DEPENDS;DEFINITIONS;LAUNCHER;ARGUMENTS")
    if(arg_UNPARSED_ARGUMENTS)
        message(FATAL_ERROR "qdistlock_add_test(${name}): unknown arguments: ${arg_UNPARSED_ARGUMENTS}")
    endif()
    if(NOT arg_LABEL MATCHES "^(unit|integration|qml|chaos|fuzz)$")
        message(FATAL_ERROR "qdistlock_add_test(${name}): LABEL must be unit, integration, qml, chaos or fuzz")
    endif()
    set(usual_libraries qdistlock_core_testing qdistlock_test_support Qt6::Test)
    if(NOT arg_SOURCES)
        set(arg_SOURCES ${name}.cpp)
    endif()
    if(NOT arg_LIBRARIES)
        set(arg_LIBRARIES qdistlock_locktest ${usual_libraries})
    endif()
    if(NOT arg_TIMEOUT)
        set(arg_TIMEOUT 120)
    endif()
    if(NOT arg_PROCESSORS)
        set(arg_PROCESSORS 1)
    endif()

    qdistlock_add_executable(${name} ${arg_SOURCES})
    target_link_libraries(${name} PRIVATE ${arg_LIBRARIES})
    target_compile_definitions(${name} PRIVATE ${arg_DEFINITIONS})
    if(NOT arg_LABEL STREQUAL "fuzz")
        qdistlock_compile_fast(${name})
        set(missing ${usual_libraries})
        list(REMOVE_ITEM missing ${arg_LIBRARIES})
        if(NOT missing AND TARGET qdistlock_test_pch)
            target_precompile_headers(${name} REUSE_FROM qdistlock_test_pch)
            # Nearly empty: loading the precompiled header would take longer.
            set_source_files_properties("${CMAKE_CURRENT_BINARY_DIR}/${name}_autogen/mocs_compilation.cpp"
                PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
        endif()
    endif()
    if(arg_DEPENDS)
        add_dependencies(${name} ${arg_DEPENDS})
    endif()
    if(arg_LABEL MATCHES "^(unit|fuzz)$")
        add_dependencies(qdistlock_unit_tests ${name})
    endif()
    if(arg_THREADS)
        add_dependencies(qdistlock_thread_tests ${name})
    endif()

    # Which kinds of functions are there? A source that gets its first tag configures again.
    set(kinds ordinary)
    if(arg_KIND)
        set(kinds ${arg_KIND})
    else()
        foreach(source IN LISTS arg_SOURCES)
            set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${source}")
            foreach(kind IN ITEMS timing proof)
                string(TOUPPER ${kind} tag)
                file(STRINGS "${source}" tagged REGEX "^ *${tag}( |$)" LIMIT_COUNT 1)
                if(tagged)
                    list(APPEND kinds ${kind})
                endif()
            endforeach()
        endforeach()
        list(REMOVE_DUPLICATES kinds)
    endif()

    foreach(kind IN LISTS kinds)
        set(test ${name})
        if(NOT kind STREQUAL "ordinary" AND NOT arg_KIND)
            set(test ${name}_${kind})
        endif()
        set(labels ${arg_LABEL})
        set(serial FALSE)
        if(kind STREQUAL "ordinary" AND arg_THREADS)
            list(APPEND labels threads)
        elseif(kind STREQUAL "timing")
            if(CMAKE_CXX_FLAGS MATCHES "-fsanitize")
                continue()
            endif()
            list(APPEND labels timing)
            set(serial TRUE)
        elseif(kind STREQUAL "proof")
            if(NOT QDISTLOCK_LONG_TESTS AND NOT CMAKE_CXX_FLAGS MATCHES "-fsanitize")
                continue()
            endif()
            list(APPEND labels proof)
        endif()
        set(chosen --${kind})
        if(kinds STREQUAL "ordinary" OR arg_KIND STREQUAL "proof")
            set(chosen) # all functions
        endif()
        set(cost ${arg_TIMEOUT}) # CTest starts the greatest first
        if(arg_PROCESSORS GREATER 1)
            # It would wait for free processors until nearly all others have passed.
            math(EXPR cost "1000 * ${arg_PROCESSORS}")
        endif()
        add_test(NAME ${test} COMMAND ${arg_LAUNCHER} $<TARGET_FILE:${name}> ${chosen} ${arg_ARGUMENTS})
        set_tests_properties(${test} PROPERTIES
            LABELS "${labels}"
            TIMEOUT ${arg_TIMEOUT}
            COST ${cost}
            PROCESSORS ${arg_PROCESSORS}
            RUN_SERIAL ${serial}
            ENVIRONMENT "QT_QPA_PLATFORM=offscreen;QT_QUICK_BACKEND=software;LC_ALL=C.UTF-8"
        )
    endforeach()
endfunction()

# The tested library is optimised like the installed one. The tests themselves should compile fast: with sanitizers,
# compiling one takes twice as long at -O1.
function(qdistlock_compile_fast target)
    if(MSVC)
        return()
    endif()
    target_compile_options(${target} PRIVATE -O0)
    # QTRY_COMPARE() and its relatives in newer versions of Qt narrow a duration to int.
    if(Qt6_VERSION VERSION_GREATER_EQUAL 6.5)
        target_compile_options(${target} PRIVATE -Wno-conversion)
    endif()
endfunction()
