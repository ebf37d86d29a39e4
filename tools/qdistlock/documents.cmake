# SPDX-FileCopyrightText: 2026 The QDistLock developers
# SPDX-License-Identifier: MIT

# Writes and installs the man page and the completions of the shells, which are made from the tables of commands and options.
# With a cross-compiler, CMAKE_CROSSCOMPILING_EMULATOR must be able to run the generator; otherwise these are left out.

qdistlock_add_executable(qdistlock_makedocs makedocs.cpp)
target_link_libraries(qdistlock_makedocs PRIVATE qdistlock_cli_options Qt6::Core)

set(QDISTLOCK_CLI_DOCUMENTS "${CMAKE_CURRENT_BINARY_DIR}/documents" CACHE INTERNAL "")
if(CMAKE_CROSSCOMPILING AND NOT CMAKE_CROSSCOMPILING_EMULATOR)
    return()
endif()
file(MAKE_DIRECTORY "${QDISTLOCK_CLI_DOCUMENTS}")
set(documents qdistlock.1 qdistlock.bash qdistlock.zsh qdistlock.fish)
list(TRANSFORM documents PREPEND "${QDISTLOCK_CLI_DOCUMENTS}/")
add_custom_command(
    OUTPUT ${documents}
    COMMAND qdistlock_makedocs "${QDISTLOCK_CLI_DOCUMENTS}"
    DEPENDS qdistlock_makedocs
    COMMENT "Writing the man page and the completions of qdistlock"
    VERBATIM
)
add_custom_target(qdistlock_documents ALL DEPENDS ${documents})

install(FILES "${QDISTLOCK_CLI_DOCUMENTS}/qdistlock.1"
    DESTINATION "${CMAKE_INSTALL_MANDIR}/man1" COMPONENT Tools)
install(FILES "${QDISTLOCK_CLI_DOCUMENTS}/qdistlock.bash" RENAME qdistlock
    DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions" COMPONENT Tools)
install(FILES "${QDISTLOCK_CLI_DOCUMENTS}/qdistlock.zsh" RENAME _qdistlock
    DESTINATION "${CMAKE_INSTALL_DATADIR}/zsh/site-functions" COMPONENT Tools)
install(FILES "${QDISTLOCK_CLI_DOCUMENTS}/qdistlock.fish"
    DESTINATION "${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d" COMPONENT Tools)
install(FILES "${PROJECT_SOURCE_DIR}/docs/qdistlock.schema.json"
    DESTINATION "${CMAKE_INSTALL_DATADIR}/qdistlock" COMPONENT Tools)
