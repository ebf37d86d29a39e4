#!/bin/sh
# SPDX-FileCopyrightText: 2026 The QDistLock developers
# SPDX-License-Identifier: MIT
#
# Compiles the source as it stands, which must give no warning, and once for each of its cases, which must fail
# and say what the case names. Usage: macroerrors.sh <source> <file with flags> <compiler>

set -u
source=$1
flags=$2
compiler=$3
status=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
messages=$work/messages

run() # <standard> <argument>…
{
    standard=$1
    shift
    LC_ALL=C "$compiler" "-std=c++$standard" @"$flags" -fPIC -Wall -Wextra -Wpedantic -Wconversion -Werror "$@" \
        >"$messages" 2>&1
}

compile() # <standard> <flag>…
{
    standard=$1
    shift
    run "$standard" -fsyntax-only -include "$work/headers$standard.h" "$@" "$source"
}

fail()
{
    echo "FAIL: $1"
    cat "$messages"
    status=1
}

for standard in 17 20; do
    # Compiled once: the same for all cases.
    grep '^#include <QDistLock/' "$source" >"$work/headers$standard.h"
    run $standard -x c++-header "$work/headers$standard.h" -o "$work/headers$standard.h.gch" ||
        fail "C++$standard: the header gives a warning"
    compile $standard || fail "C++$standard: does not compile without a warning"
    compile $standard -DQT_NO_DEBUG || fail "C++$standard: does not compile for release without a warning"
done

cases=$(sed -n 's|.*// case \([a-z_]*\) \([0-9]*\): .*|\1 \2|p' "$source")
[ -n "$cases" ] || fail "there are no cases"
count=0
# Here-document: a pipe would lose the status.
while read -r name first; do
    expected=$(sed -n "s|.*// case $name [0-9]*: ||p" "$source")
    for standard in 17 20; do
        [ "$standard" -ge "$first" ] || continue
        count=$((count + 1))
        if compile $standard "-DCASE_$name"; then
            fail "C++$standard, $name: compiles"
        elif ! grep 'error' "$messages" | grep -qF -- "$expected"; then
            fail "C++$standard, $name: no error says \"$expected\""
        fi
    done
done <<CASES
$cases
CASES
echo "$count compilations that must fail"
exit $status
