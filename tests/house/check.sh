#!/bin/sh
# SPDX-FileCopyrightText: 2026 The QDistLock developers
# SPDX-License-Identifier: MIT
#
# Checks forbidden includes and calls, file names, line lengths and licence headers.
# Usage: check.sh <source folder>. Prints each violation, and exits with 1 if there is one.

set -eu
cd "$1"
status=0

# Prints the files of the project, except those without room for a comment (see .reuse/dep5).
files()
{
    find . \( -name .git -o -name .reuse -o -name .cache -o -name __pycache__ -o -path './build*' -o -path ./LICENSES \
        -o -path ./tests/fuzz/corpus -o -path ./tests/fuzz/regressions -o -path ./docs/acl.txt \) -prune -o -type f \
        ! -name '*.json' ! -name '*.png' ! -name '*.svg' ! -name '*.pem' ! -name '*.key' ! -name '*.crt' -print
}

# forbid <rule> <extended regular expression> <grep's options, files and folders>…
forbid()
{
    rule=$1
    pattern=$2
    shift 2
    if grep -rnE --include='*.cpp' --include='*.h' --include='*.qml' --include='[A-Z]*' -e "$pattern" "$@"; then
        echo "^ $rule" >&2
        status=1
    fi
}

sockets='# *include *[<"](QtNetwork|QTcp|QUdp|QLocalSocket|QLocalServer|QSsl|QAbstractSocket|QHost|q(tcp|udp|local|ssl|abstract)[a-z]*socket|sys/socket|netinet|sys/un)'

if grep -rlE '# *include *[<"].*hiredis' include src qml | grep -vx 'src/redis/codec.cpp'; then
    echo "^ only src/redis/codec.cpp includes hiredis" >&2
    status=1
fi
forbid "only src/redis may use sockets" "$sockets" include qml src/annotations src/background src/base src/core \
    src/engine src/lock
# Exception: Deadline, LeaseClock, LeaseTime, BackOff, PostedCall and jittered(), of the headers that includes.py allows it.
forbid "src/redis must not use the lock library" \
    '# *include *[<"]QDistLock|namespace QDistLock|QDistLock::([^BDLPj]|P[^o]|B[^a]|D[^e]|De[^a]|L[^e]|Le[^a]|j[^i])' src/redis
forbid "src must not use QML" '# *include *[<"](QtQml|QtQuick|QQml|QQuick|QJS|qqml|qquick|qjs)' include src
forbid "the state machine must not have timers" '# *include *[<"](QtCore/)?[qQ]([bB]asic)?[tT]imer' src/core/leasemachine.h src/core/leasemachine.cpp
# Exception: LingeringConnection and its transport, when no event loop runs any more.
forbid "nothing may block an event loop" \
    'QEventLoop|processEvents|[.>]waitFor[A-Z][A-Za-z]*\(|QThread::(m|u)?sleep|sleep_for|(^|[^a-z_])(u|nano)?sleep\(' \
    --exclude=lingeringconnection.cpp --exclude=transport.cpp include src qml examples
# Exception: doctor examines the server, and asks it by the same Redis client as locks.
forbid "the command line uses the public headers only" '# *include *"[a-z]+/|# *include *[<"].*_p\.h' \
    --exclude-dir=doctor tools/qdistlock
forbid "doctor uses the Redis client and public headers only" \
    '# *include *"(annotations|background|base|core|engine|lock)/|# *include *[<"].*_p\.h' tools/qdistlock
forbid "public headers must not include internal ones" '# *include *"[a-z]+/|# *include *[<"].*_p\.h' include

python3 tests/house/includes.py . || status=1

# clang-format wraps code, but neither comments nor texts, which are found with grep if they are in one piece.
if find include src qml tests examples tools \( -name '*.cpp' -o -name '*.h' \) -print0 |
    LC_ALL=C.UTF-8 xargs -0 grep -nHE '^.{121,}' | LC_ALL=C.UTF-8 grep -vE ':[0-9]+:[^"]*"([^"\\]|\\.){40,}"'; then
    echo "^ lines of C++ are at most 120 columns long, unless they have a long text" >&2
    status=1
fi

# A header and a source file share their name; any other two files must differ by more than a plural s.
for file in $(find src include qml tests tools -name '*s.h' -o -name '*s.cpp'); do
    singular=${file%s.*}
    for other in "$singular.h" "$singular.cpp"; do
        if [ -e "$other" ]; then
            echo "$file and $other differ only by an s" >&2
            status=1
        fi
    done
done

for file in $(files); do
    for tag in FileCopyrightText:' 2026 The QDistLock developers' License-Identifier:' MIT'; do
        if ! head -n 6 "$file" | grep -qF "SPDX-$tag"; then
            echo "$file: \"SPDX-$tag\" is missing in its first 6 lines" >&2
            status=1
        fi
    done
done

# Written so that this file does not match itself.
# shellcheck disable=SC2046
if grep -nIE '\b(TO[D]O|FIX[M]E|XX[X])\b|(^|[^a-zA-Z.}])/wor[k]/|/tm[p]/build-' $(files) CMakePresets.json; then
    echo "^ no unfinished work and no paths of one machine" >&2
    status=1
fi

exit $status
