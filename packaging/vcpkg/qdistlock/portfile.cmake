# SPDX-FileCopyrightText: 2026 The QDistLock developers
# SPDX-License-Identifier: MIT

# An overlay port, which builds the sources that it is a part of: see docs/packaging.md.
get_filename_component(SOURCE_PATH "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)

vcpkg_check_features(OUT_FEATURE_OPTIONS feature_options
    FEATURES
        qml QDISTLOCK_BUILD_QML
        tools QDISTLOCK_BUILD_TOOLS
)
vcpkg_cmake_configure(
    SOURCE_PATH "${SOURCE_PATH}"
    OPTIONS
        -DQDISTLOCK_BUILD_TESTS=OFF
        -DQDISTLOCK_BUILD_EXAMPLES=OFF
        -DQDISTLOCK_BUILD_ZOOKEEPER=OFF
        -DQDISTLOCK_INSTALL_QMLDIR=Qt6/qml
        ${feature_options}
)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(PACKAGE_NAME QDistLock6 CONFIG_PATH lib/cmake/QDistLock6)
vcpkg_fixup_pkgconfig()
vcpkg_copy_pdbs()
if("tools" IN_LIST FEATURES)
    set(tool_names qdistlock)
    if("qml" IN_LIST FEATURES)
        list(APPEND tool_names qdistlock-monitor)
    endif()
    vcpkg_copy_tools(TOOL_NAMES ${tool_names} AUTO_CLEAN)
endif()
file(REMOVE_RECURSE
    "${CURRENT_PACKAGES_DIR}/debug/include"
    "${CURRENT_PACKAGES_DIR}/debug/share"
    "${CURRENT_PACKAGES_DIR}/share/licenses"
)
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSES/MIT.txt")
