#!/bin/sh
# SPDX-FileCopyrightText: 2026 The QDistLock developers
# SPDX-License-Identifier: MIT
#
# Examines the packages in a fresh root, for tools/package --check: installs them, uses them as a user would, purges them.
# Usage: check.sh <folder of the packages>, as root, in the folder of the sources

set -eu

debs=$1
export DEBIAN_FRONTEND=noninteractive QT_QPA_PLATFORM=offscreen
work=$(mktemp -d)
log=$work/log
server=

cleanup()
{
    if [ -n "$server" ]; then
        kill "$server" 2>/dev/null || true
        wait "$server" || true # it writes its file
    fi
    rm -rf "$work"
}
trap cleanup EXIT

# step <words> -- <command>…: prints the words, and what the command prints last; or all of it, if it fails. In a function
# that it calls, `set -e` has no effect.
step()
{
    words=
    while [ "$1" != -- ]; do
        words="$words $1"
        shift
    done
    shift
    if ! "$@" >"$log" 2>&1; then
        cat "$log"
        echo "FAILED:$words"
        exit 1
    fi
    echo "ok:$words: $(tail -n 1 "$log")"
}

install_packages()
{
    apt-get install -q -y --no-install-recommends "$@"
}

# install_ours <name>…: our packages, from the folder; what they depend on comes from Debian and from the folder.
install_ours()
{
    files=
    for name in "$@"; do
        files="$files $(ls "$debs/$name"_*.deb)"
    done
    # shellcheck disable=SC2086
    install_packages $files
}

start_server()
{
    redis-server --port 0 --unixsocket "$work/redis.sock" --appendonly yes --appendfsync always --dir "$work" >/dev/null 2>&1 &
    server=$!
    for _ in $(seq 300); do
        redis-cli -s "$work/redis.sock" ping 2>/dev/null && return
        sleep 0.1
    done
    return 1
}

# build_and_run <project of tests/package> <argument>…
build_and_run()
{
    project=$1
    shift
    cmake -S "tests/package/$project" -B "$work/$project" &&
        cmake --build "$work/$project" &&
        "$work/$project/app" "$@" &&
        echo "built and run against $(dpkg-query -W libqdistlock6-dev)"
}

# qmllint prints nothing if it knows every type, and nothing else is wrong.
no_lint()
{
    lint=$(/usr/lib/qt6/bin/qmllint "$1" 2>&1)
    if [ -n "$lint" ]; then
        echo "$lint"
        return 1
    fi
    echo "no warning"
}

# The program runs until the time-out ends it, and reports no missing QML file.
shows_window()
{
    rc=0
    timeout 10 xvfb-run -a env QT_QUICK_BACKEND=software qdistlock-monitor >"$work/window" 2>&1 || rc=$?
    [ "$rc" -eq 124 ] && ! grep qrc: "$work/window"
}

nothing_left()
{
    if dpkg-query -W -f='${db:Status-Status} ${Package}\n' '*qdistlock*' 2>/dev/null | grep -v '^not-installed' || find / -xdev \
        \( -path /proc -o -path /srv -o -path "$debs" -o -path /tmp \) -prune -o -iname '*qdistlock*' -print | grep .; then
        return 1
    fi
    echo "no file, no package"
}

apt-get update -q >"$log" 2>&1

step the command line is installed -- install_ours libqdistlock6core0.1 qdistlock-tools
if dpkg-query -W libqt6gui6 libqt6qml6 2>/dev/null | grep -q '[0-9]$'; then
    echo "FAILED: the command line brings Qt Gui or Qml with it"
    exit 1
fi
step version -- qdistlock --version
step a server -- install_packages redis-server
step it answers -- start_server
export QDISTLOCK_URL="unix://$work/redis.sock"
step doctor -- qdistlock doctor
step a program under a lock -- qdistlock run nightly echo "done"
step its man page -- gzip -t /usr/share/man/man1/qdistlock.1.gz

step the QML module is installed -- install_ours libqdistlock6qml0.1 qml6-module-qdistlock
step the program qml -- install_packages qml-qt6 qml6-module-qtqml qml6-module-qtqml-models qml6-module-qtqml-workerscript \
    qml6-module-qtquick-window
cat >"$work/Main.qml" <<'END'
import QtQuick
import QDistLock

Item {
    DistributedLock {
        id: lock

        name: "from-qml"
        onAcquired: {
            console.info("acquired with fencing token", lock.fencingToken);
            Qt.quit();
        }
        Component.onCompleted: lock.acquire()
    }
}
END
step import QDistLock without any path -- timeout 60 /usr/lib/qt6/bin/qml "$work/Main.qml"

step the window is installed -- install_ours qdistlock-monitor
step an X server -- install_packages xvfb xauth
step the window finds what it needs -- shows_window

step the development package is installed -- install_ours libqdistlock6-dev
step a compiler -- install_packages cmake g++ make pkg-config qt6-declarative-dev
step a program with the lock -- build_and_run installed "$QDISTLOCK_URL"
step a program with the QML module -- build_and_run qml
step qmllint without any path -- no_lint "$work/Main.qml"
step pkg-config -- pkg-config --modversion QDistLock6Core
if ls "$debs"/libqdistlock6-doc_*.deb >/dev/null 2>&1; then
    step the reference is installed -- install_ours libqdistlock6-doc
fi

# shellcheck disable=SC2046
step purge -- apt-get purge -q -y $(dpkg-query -W -f='${Package}\n' '*qdistlock*')
step nothing is left -- nothing_left

step lintian is installed -- install_packages lintian
lintian --fail-on error,warning --allow-root "$debs"/*.deb || { echo "FAILED: lintian"; exit 1; }
echo "ok: lintian: nothing"
