# SPDX-FileCopyrightText: 2026 The QDistLock developers
# SPDX-License-Identifier: MIT

# Installs everything except the QML module's plugin and types: qml/CMakeLists.txt installs these.

include(CMakePackageConfigHelpers)

set(_package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/QDistLock6")

install(TARGETS QDistLockCore EXPORT QDistLock6CoreTargets COMPONENT Core)
install(EXPORT QDistLock6CoreTargets NAMESPACE QDistLock:: DESTINATION "${_package_dir}" COMPONENT Core)
set(QDISTLOCK_COMPONENTS Core)
if(QDISTLOCK_BUILD_ZOOKEEPER)
    list(APPEND QDISTLOCK_COMPONENTS ZooKeeper)
endif()

if(TARGET QDistLockQml)
    install(TARGETS QDistLockQml EXPORT QDistLock6QmlTargets COMPONENT Qml)
    install(EXPORT QDistLock6QmlTargets NAMESPACE QDistLock:: DESTINATION "${_package_dir}" COMPONENT Qml)
    list(APPEND QDISTLOCK_COMPONENTS Qml)
endif()

install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/QDistLock" "${PROJECT_BINARY_DIR}/include/QDistLock"
    DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" COMPONENT Core)

configure_package_config_file(
    "${PROJECT_SOURCE_DIR}/cmake/QDistLock6Config.cmake.in"
    "${PROJECT_BINARY_DIR}/QDistLock6Config.cmake"
    INSTALL_DESTINATION "${_package_dir}"
    NO_SET_AND_CHECK_MACRO
)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/QDistLock6ConfigVersion.cmake"
    COMPATIBILITY SameMinorVersion)
install(FILES
    "${PROJECT_BINARY_DIR}/QDistLock6Config.cmake"
    "${PROJECT_BINARY_DIR}/QDistLock6ConfigVersion.cmake"
    DESTINATION "${_package_dir}" COMPONENT Core
)

# The .pc file names the prefix relative to its own folder, so that the installed tree can be moved.
set(_pkgconfig_dir "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX
    BASE_DIRECTORY "${CMAKE_INSTALL_PREFIX}/${_pkgconfig_dir}"
    OUTPUT_VARIABLE QDISTLOCK_PC_PREFIX)
configure_file("${PROJECT_SOURCE_DIR}/cmake/QDistLock6Core.pc.in" "${PROJECT_BINARY_DIR}/QDistLock6Core.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/QDistLock6Core.pc" DESTINATION "${_pkgconfig_dir}" COMPONENT Core)

install(FILES "${PROJECT_SOURCE_DIR}/LICENSES/MIT.txt"
    DESTINATION "${CMAKE_INSTALL_DATADIR}/licenses/QDistLock6" COMPONENT Core)
