# SPDX-FileCopyrightText: 2026 The QDistLock developers
# SPDX-License-Identifier: MIT

# The Debian packages: tools/package makes them, docs/packaging.md describes them.

set(CPACK_GENERATOR DEB)
set(CPACK_RESOURCE_FILE_LICENSE "${PROJECT_SOURCE_DIR}/LICENSES/MIT.txt")
set(CPACK_PACKAGE_NAME qdistlock)
set(CPACK_PACKAGE_VENDOR "The QDistLock developers")
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
# A revision below that of any package by Debian itself.
set(CPACK_DEBIAN_PACKAGE_RELEASE 0upstream1)
set(CPACK_DEBIAN_PACKAGE_MAINTAINER "The QDistLock developers <qdistlock@packages.invalid>" CACHE STRING
    "Who answers for the Debian packages: name <address>")
set(CPACK_DEBIAN_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
# Where dpkg-shlibdeps finds our own libraries. What depends on them says so below, with the exact version.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS "${PROJECT_BINARY_DIR}/src")
set(CPACK_PRE_BUILD_SCRIPTS "${CMAKE_CURRENT_LIST_DIR}/documents.cmake")
set(CPACK_POST_BUILD_SCRIPTS "${CMAKE_CURRENT_LIST_DIR}/triggers.cmake")

set(_soversion ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
set(_same_version "(= ${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE})")
set(_core "libqdistlock6core${_soversion} ${_same_version}")
set(_qml "libqdistlock6qml${_soversion} ${_same_version}")
# The first line of each description is that of the project.
set(_about "\
A lock has a lease that is renewed while it is held, a fair queue of waiters
and fencing tokens. Servers: Redis or Valkey (alone, with replicas, with
Sentinel, as a cluster or as a quorum) and ZooKeeper.
.
")

# _debian_package(<component> <name> <the last lines of its description>)
macro(_debian_package component name contents)
    string(TOUPPER ${component} _upper)
    list(APPEND CPACK_COMPONENTS_ALL ${component})
    set(CPACK_DEBIAN_${_upper}_PACKAGE_NAME ${name})
    set(CPACK_DEBIAN_${_upper}_DESCRIPTION "${_about}${contents}")
endmacro()

set(CPACK_COMPONENTS_ALL "")
_debian_package(Runtime libqdistlock6core${_soversion}
    "This package has the library.")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SUGGESTS "redis-server, libzookeeper-st2")

_debian_package(Development libqdistlock6-dev
    "This package has the headers, and what CMake and pkg-config need.")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "${_core}, qt6-base-dev (>= ${QDISTLOCK_QT_VERSION})")

if(TARGET QDistLockQml)
    list(APPEND CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS "${PROJECT_BINARY_DIR}/qml")
    string(APPEND CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS ", ${_qml}, qml6-module-qdistlock ${_same_version}")
    set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SUGGESTS "qt6-declarative-dev")

    _debian_package(QmlRuntime libqdistlock6qml${_soversion}
        "This package has the library behind the QML module.")
    set(CPACK_DEBIAN_QMLRUNTIME_PACKAGE_DEPENDS "${_core}")

    _debian_package(QmlModule qml6-module-qdistlock
        "This package has what \"import QDistLock\" needs.")
    set(CPACK_DEBIAN_QMLMODULE_PACKAGE_DEPENDS "${_qml}, qml6-module-qtquick")
endif()

if(TARGET qdistlock)
    _debian_package(Tools qdistlock-tools
        "This package has the program qdistlock, which runs other programs under a\nlock, shows who holds one, and checks a server.")
    set(CPACK_DEBIAN_TOOLS_PACKAGE_SECTION utils)
    set(CPACK_DEBIAN_TOOLS_PACKAGE_DEPENDS "${_core}")
endif()

if(TARGET qdistlock-monitor)
    _debian_package(Monitor qdistlock-monitor
        "This package has the program qdistlock-monitor, a window with all locks of\na server: who holds them, and who waits.")
    set(CPACK_DEBIAN_MONITOR_PACKAGE_SECTION utils)
    set(CPACK_DEBIAN_MONITOR_PACKAGE_DEPENDS "${_core}, ${_qml}, qml6-module-qtquick-controls, \
qml6-module-qtquick-layouts, qml6-module-qtquick-templates, qml6-module-qtquick-window, qml6-module-qtqml-workerscript")
endif()

if(QDISTLOCK_BUILD_DOCS)
    _debian_package(Documentation libqdistlock6-doc
        "This package has the reference as HTML and for Qt Creator.")
    set(CPACK_DEBIAN_DOCUMENTATION_PACKAGE_SECTION doc)
    set(CPACK_DEBIAN_DOCUMENTATION_PACKAGE_ARCHITECTURE all)
    set(CPACK_DEBIAN_DOCUMENTATION_PACKAGE_SHLIBDEPS OFF)
endif()

include(CPack)
