#!/bin/sh
# SPDX-FileCopyrightText: 2026 The QDistLock developers
# SPDX-License-Identifier: MIT
#
# The rules about who may know whom, and what every file must bear. Usage: check.sh <source folder>

set -eu
cd "$1"
status=0

# What belongs to the project, without what cannot bear a comment (see REUSE.toml).
files()
{
    find . \( -name .git -o -name .cache -o -name __pycache__ -o -path './build*' -o -path ./LICENSES \
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
forbid "no sockets outside src/redis" "$sockets" --exclude-dir=redis include src qml
forbid "src/redis knows nothing of locks" \
    '# *include *[<"](QDistLock|(\.\./)?(core|engine|scripts))|namespace QDistLock|QDistLock::' src/redis
forbid "src knows nothing of QML" '# *include *[<"](QtQml|QtQuick|QQml|QQuick|QJS|qqml|qquick|qjs)' include src
forbid "the state machine has no timers" '# *include *[<"](QtCore/)?[qQ]([bB]asic)?[tT]imer' src/core/leasemachine.h src/core/leasemachine.cpp
# But LingeringConnection, where none runs any more, and what it uses.
forbid "nothing blocks an event loop" \
    'QEventLoop|processEvents|[.>]waitFor[A-Z][A-Za-z]*\(|QThread::(m|u)?sleep|sleep_for|(^|[^a-z_])(u|nano)?sleep\(' \
    --exclude=lingeringconnection.cpp --exclude=transport.cpp include src qml examples
forbid "public headers include no internal ones" '# *include *"(core|engine|redis)/|# *include *[<"].*_p\.h' include

for file in $(files); do
    for tag in 'SPDX-FileCopyrightText: 2026 The QDistLock developers' 'SPDX-License-Identifier: MIT'; do
        if ! head -n 6 "$file" | grep -qF "$tag"; then
            echo "$file: \"$tag\" is missing at its head" >&2
            status=1
        fi
    done
done

# Written so that this file does not match itself.
# shellcheck disable=SC2046
if grep -nIE '\b(TO[D]O|FIX[M]E|XX[X])\b|(^|[^a-zA-Z.}])/wor[k]/|/tmp/buil[d]-' $(files) CMakePresets.json; then
    echo "^ no open ends and no paths of one machine" >&2
    status=1
fi

exit $status
