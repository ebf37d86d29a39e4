#compdef qdistlock
# SPDX-FileCopyrightText: 2026 The QDistLock developers
# SPDX-License-Identifier: MIT
#
# Completion of qdistlock for zsh, which asks the program: see tools/qdistlock/completion.cpp.

_qdistlock() {
  local -a reply items
  reply=("${(@f)$(qdistlock __complete "${(@Q)words[2,CURRENT]}" 2>/dev/null </dev/null)}")
  case $reply[1] in
    (files)
      compset -P '--*='
      _files
      ;;
    (command\ *)
      shift ${reply[1]#command } words
      ((CURRENT -= ${reply[1]#command }))
      _normal
      ;;
    (*)
      items=("${(@)reply[2,-1]//\\/\\\\}")
      items=("${(@)items//:/\\:}")
      items=("${(@)items/$'\t'/:}") # _describe separates a word from its explanation by a colon
      _describe -o qdistlock items
      ;;
  esac
}

if [[ $funcstack[1] == _qdistlock ]]; then
  _qdistlock "$@"
else
  compdef _qdistlock qdistlock
fi
