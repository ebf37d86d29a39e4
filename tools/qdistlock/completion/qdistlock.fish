# SPDX-FileCopyrightText: 2026 The QDistLock developers
# SPDX-License-Identifier: MIT
#
# Completion of qdistlock for fish, which asks the program: see tools/qdistlock/completion.cpp.

function __qdistlock_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l reply (qdistlock __complete $words[2..-1] "$current" 2>/dev/null </dev/null)
    switch "$reply[1]"
        case files
            set -l option (string match -r -- '^--[^=]*=' "$current")
            set -l files (__fish_complete_path (string replace -- "$option" '' "$current"))
            printf '%s\n' "$option"$files
        case 'command *'
            __fish_complete_subcommand --fcs-skip=(string replace 'command ' '' -- $reply[1])
        case '*'
            printf '%s\n' $reply[2..-1]
    end
end

complete -c qdistlock -f -a '(__qdistlock_complete)'
