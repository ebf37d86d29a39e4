# SPDX-FileCopyrightText: 2026 The QDistLock developers
# SPDX-License-Identifier: MIT

# Run by CPack after it has made the packages: gives those with a library the trigger that Debian wants, in place of CPack's
# scripts that call ldconfig.

if(NOT CPACK_GENERATOR STREQUAL "DEB")
    return()
endif()
foreach(package IN LISTS CPACK_PACKAGE_FILES)
    set(root "${CPACK_TEMPORARY_DIRECTORY}/unpacked")
    file(REMOVE_RECURSE "${root}")
    execute_process(COMMAND dpkg-deb --raw-extract "${package}" "${root}" COMMAND_ERROR_IS_FATAL ANY)
    if(EXISTS "${root}/DEBIAN/postinst")
        file(REMOVE "${root}/DEBIAN/postinst" "${root}/DEBIAN/postrm")
        file(WRITE "${root}/DEBIAN/triggers" "activate-noawait ldconfig\n")
        execute_process(COMMAND dpkg-deb --root-owner-group -Zxz --build "${root}" "${package}"
            OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
    endif()
endforeach()
