# SPDX-FileCopyrightText: 2026 The QDistLock developers
# SPDX-License-Identifier: MIT

# Installs the completions of the shells and the JSON schema, and writes and installs the man page, which is made from the
# tables of commands and options and from the schema. With a cross-compiler, CMAKE_CROSSCOMPILING_EMULATOR must be able to
# run its generator; otherwise the page is left out.

set(schema "${PROJECT_SOURCE_DIR}/docs/qdistlock.schema.json")
install(FILES "${schema}" DESTINATION "${CMAKE_INSTALL_DATADIR}/qdistlock" COMPONENT Tools)
install(FILES completion/qdistlock.bash RENAME qdistlock
    DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions" COMPONENT Tools)
install(FILES completion/qdistlock.zsh RENAME _qdistlock
    DESTINATION "${CMAKE_INSTALL_DATADIR}/zsh/site-functions" COMPONENT Tools)
install(FILES completion/qdistlock.fish
    DESTINATION "${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d" COMPONENT Tools)

qdistlock_add_executable(qdistlock_manpage manpage.cpp)
target_include_directories(qdistlock_manpage PRIVATE $<TARGET_PROPERTY:QDistLock::Core,INTERFACE_INCLUDE_DIRECTORIES>)
target_link_libraries(qdistlock_manpage PRIVATE qdistlock_cli_options Qt6::Core)

set(QDISTLOCK_MAN_PAGE "${CMAKE_CURRENT_BINARY_DIR}/qdistlock.1" CACHE INTERNAL "")
if(CMAKE_CROSSCOMPILING AND NOT CMAKE_CROSSCOMPILING_EMULATOR)
    return()
endif()
add_custom_command(
    OUTPUT "${QDISTLOCK_MAN_PAGE}"
    COMMAND qdistlock_manpage "${schema}" "${QDISTLOCK_MAN_PAGE}"
    DEPENDS qdistlock_manpage "${schema}"
    COMMENT "Writing the man page of qdistlock"
    VERBATIM
)
add_custom_target(qdistlock_documents ALL DEPENDS "${QDISTLOCK_MAN_PAGE}")
install(FILES "${QDISTLOCK_MAN_PAGE}" DESTINATION "${CMAKE_INSTALL_MANDIR}/man1" COMPONENT Tools)
