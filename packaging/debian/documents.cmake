# SPDX-FileCopyrightText: 2026 The QDistLock developers
# SPDX-License-Identifier: MIT

# Run by CPack before it makes the packages: adds to each what Debian wants to find in all of them.

# What lintian must not report, with the reason: <package>_OVERRIDES.
set(libqdistlock6-doc_OVERRIDES "\
# Doxygen's pages need its own build of it, with plugins.
libqdistlock6-doc: embedded-javascript-library
")

if(NOT CPACK_GENERATOR STREQUAL "DEB")
    return()
endif()
find_program(GZIP gzip REQUIRED)

function(qdistlock_compress file)
    execute_process(COMMAND "${GZIP}" -9 -n -f "${file}" COMMAND_ERROR_IS_FATAL ANY)
endfunction()

file(READ "${CPACK_RESOURCE_FILE_LICENSE}" licence)
# Whose codec is linked into the library.
file(READ /usr/share/doc/libhiredis-dev/copyright hiredis_licence)

string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC) # that of SOURCE_DATE_EPOCH, if it is set
string(CONCAT changelog
    "${CPACK_PACKAGE_NAME} (${CPACK_PACKAGE_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE}) unstable; urgency=medium\n\n"
    "  * What has changed is in CHANGELOG.md of the sources.\n\n"
    " -- ${CPACK_DEBIAN_PACKAGE_MAINTAINER}  ${date}\n")

foreach(component IN LISTS CPACK_COMPONENTS_ALL)
    string(TOUPPER ${component} upper)
    set(root "${CPACK_TEMPORARY_INSTALL_DIRECTORY}/${component}")
    set(documents "${root}/usr/share/doc/${CPACK_DEBIAN_${upper}_PACKAGE_NAME}")
    file(WRITE "${documents}/copyright" "QDistLock\n\n${licence}\n\nIt contains a part of hiredis:\n\n${hiredis_licence}")
    file(WRITE "${documents}/changelog.Debian" "${changelog}")
    qdistlock_compress("${documents}/changelog.Debian")
    if(DEFINED ${CPACK_DEBIAN_${upper}_PACKAGE_NAME}_OVERRIDES)
        file(WRITE "${root}/usr/share/lintian/overrides/${CPACK_DEBIAN_${upper}_PACKAGE_NAME}"
            "${${CPACK_DEBIAN_${upper}_PACKAGE_NAME}_OVERRIDES}")
    endif()
    file(GLOB pages "${root}/usr/share/man/man*/*.[0-9]")
    foreach(page IN LISTS pages)
        qdistlock_compress("${page}")
    endforeach()
endforeach()
