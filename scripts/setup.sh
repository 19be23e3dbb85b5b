#!/bin/sh
# Sets up everything a fresh Debian, Ubuntu or macOS machine needs: the virtual environment, the packages, the GL libraries, a browser for the tests.
# Usage: scripts/setup.sh core|test|docs    (python: $PYTHON, default python3; environment: $VENV, default .venv)
set -eu
what=${1:-core}
venv=${VENV:-.venv}
python=${PYTHON:-python3}
stamp="$venv/.ready-$what"
began=$(date +%s)

say() { echo "setup: $*" >&2; }
root() { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; }
apt_install() {
    say "installing $*"
    apt-get update -qq >/dev/null 2>&1 || true
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

command -v "$python" >/dev/null 2>&1 || { say "there is no '$python'; install Python 3.11 or newer, or set PYTHON"; exit 1; }
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { say "'$python' is $("$python" --version); Python 3.11 or newer is needed: set PYTHON"; exit 1; }

if [ ! -x "$venv/bin/pip" ]; then
    say "creating $venv"
    if ! "$python" -m venv "$venv" >/dev/null 2>&1; then
        rm -rf "$venv"
        if root; then apt_install python3-venv; else say "Python's venv module is missing; install the package python3-venv"; exit 1; fi
        "$python" -m venv "$venv"
    fi
fi

if [ ! -f "$stamp" ] || [ pyproject.toml -nt "$stamp" ] || [ constraints.txt -nt "$stamp" ]; then
    pip="$venv/bin/python -m pip --disable-pip-version-check -q"
    if [ "$what" = test ]; then
        say "installing capex with its test tools, robosuite and the judges of its datasets (a few minutes)"
        $pip install -c constraints.txt -e ".[dev,deoxys,docs,realsense,robosuite,judges,students,studio,yam]"
        # Without their dependencies: LeRobot and robomimic pin an av, viewers and drivers that the tests do not need (see docs/dataset.md);
        # robosuite pins a mink that needs numpy below 2 (see docs/robosuite.md).
        $pip install -c constraints.txt --no-deps lerobot robomimic
        "$venv/bin/capex" install robosuite --constraint constraints.txt >/dev/null
    elif [ "$what" = docs ]; then
        say "installing capex with what builds its site"
        $pip install -c constraints.txt -e ".[docs]"
    else
        say "installing capex"
        $pip install -c constraints.txt -e .
    fi
    touch "$stamp"
fi

# One GL backend is enough: EGL with a driver, or OSMesa. macOS brings its own.
if [ "$what" != docs ] && [ "$(uname -s)" = Linux ] && ! "$venv/bin/python" -c 'from capex.worlds import render; render.backend()' >/dev/null 2>&1; then
    if root; then
        apt_install libegl1 libgl1
        "$venv/bin/python" -c 'from capex.worlds import render; render.backend()' >/dev/null 2>&1 || apt_install libosmesa6
    else
        say "no OpenGL library was found; install the packages libegl1 and libgl1 (or libosmesa6), for example: sudo apt-get install libegl1 libgl1"
        exit 1
    fi
fi

# RealSense cameras need libusb. Where there is no wheel for this machine their tests are skipped, and say so.
if [ "$what" = test ] && "$venv/bin/python" -c 'import pyrealsense2' 2>&1 | grep -q libusb; then
    if root; then
        apt_install libusb-1.0-0
    else
        say "the tests of RealSense cameras are skipped without libusb; install the package libusb-1.0-0, for example: sudo apt-get install libusb-1.0-0"
    fi
fi

# The tests open the report in a real browser. $CHROMIUM names one that is installed elsewhere.
browser() {
    for name in "${CHROMIUM:-chromium}" chromium-browser google-chrome google-chrome-stable chrome \
        "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"; do
        if command -v "$name" >/dev/null 2>&1; then return 0; fi
    done
    return 1
}
if [ "$what" = test ] && ! browser; then
    if root; then apt_install chromium fonts-dejavu-core || true; fi
    browser || { say "the tests need Chromium or Chrome and found none; install the package chromium (sudo apt-get install chromium) or set CHROMIUM to the program"; exit 1; }
fi
echo $(($(date +%s) - began)) > "$venv/.setup-seconds"
