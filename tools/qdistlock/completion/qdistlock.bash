# SPDX-FileCopyrightText: 2026 The QDistLock developers
# SPDX-License-Identifier: MIT
#
# Completion of qdistlock for bash, which asks the program: see tools/qdistlock/completion.cpp.

_qdistlock()
{
    # Bash separates words at ':' and '=', which names and URLs contain: separate them at spaces only.
    local line=${COMP_LINE:0:COMP_POINT} kind='' reply='' action='' option=''
    local -a words
    read -ra words <<<"$line"
    [[ $line == *[[:space:]] ]] && words+=('')
    local last=$((${#words[@]} - 1))
    local current=${words[last]}
    COMPREPLY=()
    while IFS= read -r reply; do
        if [[ -z $kind ]]; then
            kind=$reply
        elif [[ $reply == "$current"* ]]; then
            COMPREPLY+=("${reply%%$'\t'*}")
        fi
    done < <(qdistlock __complete "${words[@]:1}" 2>/dev/null </dev/null)
    case $kind in
        "command $last") action=-c ;;
        files | command*) action=-f ;;
    esac
    [[ $kind == files && $current == --*=* ]] && option=${current%%=*}=
    if [[ -n $action ]]; then
        while IFS= read -r reply; do
            COMPREPLY+=("$option$reply")
        done < <(compgen $action -- "${current#"$option"}")
    fi
    # Bash replaces only the text after the last ':' or '='.
    local kept=${current%"${current##*[=:]}"}
    if [[ -n $kept && $COMP_WORDBREAKS == *:* ]]; then
        COMPREPLY=("${COMPREPLY[@]#"$kept"}")
    fi
}

complete -o filenames -o bashdefault -F _qdistlock qdistlock
