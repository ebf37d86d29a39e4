# SPDX-FileCopyrightText: 2026 The QDistLock developers
# SPDX-License-Identifier: MIT

#[[
What is installed, in components:

    Runtime        the library
    QmlRuntime     the library behind the QML module
    QmlModule      what `import QDistLock` needs: plugin and types; installed by qml/CMakeLists.txt
    Development    headers, and what CMake and pkg-config need
    Tools          the command line, its man page and completions; installed by tools/qdistlock/
    Monitor        the window with all locks, its man page and desktop entry; installed by tools/qdistlock-monitor/
    Documentation  the reference, with QDISTLOCK_BUILD_DOCS
    Licence        its text

docs/packaging.md says which Debian package has which.
]]

include(CMakePackageConfigHelpers)

set(_package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/QDistLock6")

# qdistlock_install_library(<target> <export> <component>): a static library is for development only.
function(qdistlock_install_library target export component)
    install(TARGETS ${target} EXPORT ${export}
        RUNTIME COMPONENT ${component}
        LIBRARY COMPONENT ${component} NAMELINK_COMPONENT Development
        ARCHIVE COMPONENT Development
    )
    install(EXPORT ${export} NAMESPACE QDistLock:: DESTINATION "${_package_dir}" COMPONENT Development)
endfunction()

qdistlock_install_library(QDistLockCore QDistLock6CoreTargets Runtime)
set(QDISTLOCK_COMPONENTS Core)
if(QDISTLOCK_BUILD_ZOOKEEPER)
    list(APPEND QDISTLOCK_COMPONENTS ZooKeeper)
endif()
if(TARGET QDistLockQml)
    qdistlock_install_library(QDistLockQml QDistLock6QmlTargets QmlRuntime)
    list(APPEND QDISTLOCK_COMPONENTS Qml)
endif()

install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/QDistLock" "${PROJECT_BINARY_DIR}/include/QDistLock"
    DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" COMPONENT Development)

# What links a static library links hiredis, too.
set(QDISTLOCK_FIND_HIREDIS "")
set(QDISTLOCK_QT_COMPONENTS Core)
set(QDISTLOCK_PC_STATIC "")
if(QDISTLOCK_LIBRARY_TYPE STREQUAL "STATIC")
    string(CONCAT QDISTLOCK_FIND_HIREDIS
        "list(PREPEND CMAKE_MODULE_PATH \"\${CMAKE_CURRENT_LIST_DIR}\")\n"
        "find_package(Hiredis QUIET)\n"
        "list(POP_FRONT CMAKE_MODULE_PATH)\n"
        "if(NOT Hiredis_FOUND)\n"
        "    set(QDistLock6_FOUND FALSE)\n"
        "    set(QDistLock6_NOT_FOUND_MESSAGE \"A static QDistLock needs hiredis with its headers, on Debian and Ubuntu libhiredis-dev.\")\n"
        "    return()\n"
        "endif()\n")
    set(QDISTLOCK_QT_COMPONENTS "Core Network")
    set(QDISTLOCK_PC_STATIC " -DQDISTLOCK_STATIC_DEFINE\nRequires.private: Qt6Network >= ${QDISTLOCK_QT_VERSION}, hiredis")
    install(FILES "${PROJECT_SOURCE_DIR}/cmake/FindHiredis.cmake" DESTINATION "${_package_dir}" COMPONENT Development)
endif()

configure_package_config_file(
    "${PROJECT_SOURCE_DIR}/cmake/QDistLock6Config.cmake.in"
    "${PROJECT_BINARY_DIR}/QDistLock6Config.cmake"
    INSTALL_DESTINATION "${_package_dir}"
    PATH_VARS QDISTLOCK_INSTALL_QMLDIR
    NO_SET_AND_CHECK_MACRO
)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/QDistLock6ConfigVersion.cmake"
    COMPATIBILITY SameMinorVersion)
install(FILES
    "${PROJECT_BINARY_DIR}/QDistLock6Config.cmake"
    "${PROJECT_BINARY_DIR}/QDistLock6ConfigVersion.cmake"
    DESTINATION "${_package_dir}" COMPONENT Development
)

# The .pc file names the prefix relative to its own folder, so that the installed tree can be moved.
set(_pkgconfig_dir "${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig")
file(RELATIVE_PATH QDISTLOCK_PC_PREFIX "${_pkgconfig_dir}" "${CMAKE_INSTALL_PREFIX}")
file(RELATIVE_PATH QDISTLOCK_PC_LIBDIR "${CMAKE_INSTALL_PREFIX}" "${CMAKE_INSTALL_FULL_LIBDIR}")
file(RELATIVE_PATH QDISTLOCK_PC_INCLUDEDIR "${CMAKE_INSTALL_PREFIX}" "${CMAKE_INSTALL_FULL_INCLUDEDIR}")
configure_file("${PROJECT_SOURCE_DIR}/cmake/QDistLock6Core.pc.in" "${PROJECT_BINARY_DIR}/QDistLock6Core.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/QDistLock6Core.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig" COMPONENT Development)

# Debian has the licence in another file, see packaging/debian.
install(FILES "${PROJECT_SOURCE_DIR}/LICENSES/MIT.txt"
    DESTINATION "${CMAKE_INSTALL_DATADIR}/licenses/QDistLock6" COMPONENT Licence)
