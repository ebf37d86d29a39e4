# SPDX-FileCopyrightText: 2026 The QDistLock developers
# SPDX-License-Identifier: MIT

# qdistlock_add_mutant(<file.mutant>): a worker whose library breaks one rule, chaosworker-<file>; or, if the mutant changes
# files of tools/qdistlock, a copy of the worker and the program that it starts, qdistlock-<file>.
# Only the files that the mutant changes are compiled again. They come before the library's archive, from which the
# linker takes all others. The build fails if a change no longer applies.
function(qdistlock_add_mutant file)
    cmake_path(GET file STEM name)
    set(script "${CMAKE_CURRENT_SOURCE_DIR}/mutants/mutate.py")
    set(folder "${CMAKE_CURRENT_BINARY_DIR}/mutants/${name}")
    file(STRINGS "${file}" paths REGEX "^@@ ")
    list(TRANSFORM paths REPLACE "^@@ +" "")
    list(REMOVE_DUPLICATES paths)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${file}")

    set(originals ${paths})
    list(TRANSFORM originals PREPEND "${PROJECT_SOURCE_DIR}/")
    set(sources ${paths})
    list(FILTER sources INCLUDE REGEX "\\.cpp$")
    list(TRANSFORM sources PREPEND "${folder}/")
    set(scripts ${paths})
    list(FILTER scripts INCLUDE REGEX "\\.lua$")
    if(scripts)
        file(GLOB originalScripts CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/engine/redis/scripts/*.lua")
        list(APPEND originals ${originalScripts})
        set(scripts ${originalScripts})
        list(TRANSFORM scripts REPLACE "^${PROJECT_SOURCE_DIR}/" "${folder}/")
    endif()
    add_custom_command(
        OUTPUT ${sources} ${scripts}
        COMMAND Python3::Interpreter "${script}" "${file}" "${PROJECT_SOURCE_DIR}" "${folder}"
        DEPENDS ${originals} "${file}" "${script}"
        COMMENT "Mutating: ${name}"
        VERBATIM
    )
    if(scripts)
        set(embed "${PROJECT_SOURCE_DIR}/cmake/EmbedLua.cmake")
        add_custom_command(
            OUTPUT "${folder}/scripts.cpp" "${folder}/scripts.h"
            COMMAND ${CMAKE_COMMAND} "-DOUTPUT=${folder}" "-DFILES=${scripts}" -P "${embed}"
            DEPENDS ${scripts} "${embed}"
            COMMENT "Embedding Lua scripts: ${name}"
            VERBATIM
        )
        list(APPEND sources "${folder}/scripts.cpp")
    endif()

    set(programSources ${sources})
    list(FILTER programSources INCLUDE REGEX "^${folder}/tools/qdistlock/")
    if(programSources)
        if(NOT TARGET qdistlock)
            return()
        endif()
        get_target_property(programFiles qdistlock SOURCES)
        foreach(programFile IN LISTS programFiles)
            if(IS_ABSOLUTE "${programFile}")
                continue() # generated: what `qdistlock completion` prints
            endif()
            cmake_path(GET programFile EXTENSION extension)
            if(extension STREQUAL ".cpp" AND NOT "${folder}/tools/qdistlock/${programFile}" IN_LIST programSources)
                list(APPEND programSources "${PROJECT_SOURCE_DIR}/tools/qdistlock/${programFile}")
            elseif(extension STREQUAL ".h")
                list(APPEND programSources "${PROJECT_SOURCE_DIR}/tools/qdistlock/${programFile}")
            endif()
        endforeach()
        qdistlock_add_executable(qdistlock-${name} ${programSources})
        target_link_libraries(qdistlock-${name} PRIVATE $<TARGET_PROPERTY:qdistlock,LINK_LIBRARIES>)
        qdistlock_add_executable(chaosworker-${name})
        target_link_libraries(chaosworker-${name} PRIVATE qdistlock_chaos_worker)
        add_dependencies(qdistlock_chaos_mutants chaosworker-${name} qdistlock-${name} chaossection)
        return()
    endif()

    qdistlock_add_executable(chaosworker-${name} ${sources})
    # The copies need no moc; the include folders are those of the original files.
    set_target_properties(chaosworker-${name} PROPERTIES AUTOMOC OFF)
    target_include_directories(chaosworker-${name} PRIVATE
        "${PROJECT_SOURCE_DIR}/src" "${PROJECT_SOURCE_DIR}/src/core" "${PROJECT_SOURCE_DIR}/src/engine")
    if(NOT MSVC)
        target_compile_options(chaosworker-${name} PRIVATE -w) # the changes leave things unused
    endif()
    target_link_libraries(chaosworker-${name} PRIVATE qdistlock_chaos_worker)
    add_dependencies(qdistlock_chaos_mutants chaosworker-${name})
endfunction()

add_custom_target(qdistlock_chaos_mutants)
set(mutants "")
file(GLOB mutantFiles CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/mutants/*.mutant")
foreach(file IN LISTS mutantFiles)
    qdistlock_add_mutant("${file}")
    cmake_path(GET file STEM name)
    if(TARGET chaosworker-${name})
        list(APPEND mutants ${name})
    endif()
endforeach()
