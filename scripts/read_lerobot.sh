#!/bin/sh
# Other LeRobots read our datasets, each in an environment of its own: 0.3.3 (format v2.1) beside the packages of $VENV (default .venv, made by
# `scripts/setup.sh test`), and the newest one ($NEWEST_PYTHON, default python3.12; 8 GB) as its makers ship it. The expert's demonstrations are
# exported in each version, as pictures and as video, and scripts/read_lerobot.py reads every frame of them.
set -eu
cd "$(dirname "$0")/.."
venv=${VENV:-.venv}
old=${OLD:-.venv-lerobot-0.3}
newest=${NEWEST:-.venv-lerobot-newest}
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
if [ ! -x "$old/bin/python" ]; then
    "$venv/bin/python" -m venv "$old"
    # LeRobot 0.3.3 needs datasets before version 4; the rest it takes from $VENV.
    "$old/bin/python" -m pip --disable-pip-version-check -q install --no-deps lerobot==0.3.3 datasets==3.6.0
    packages=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
    echo "$packages" >"$("$old/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')/beside.pth"
fi
if [ ! -x "$newest/bin/python" ]; then
    "${NEWEST_PYTHON:-python3.12}" -m venv "$newest"
    "$newest/bin/python" -m pip --disable-pip-version-check -q install "lerobot[dataset]"
fi
"$venv/bin/python" -m capex.cli expert kitchen:TurnOnMicrowave --starts 0:2 --out "$out/run"
"$venv/bin/python" -m capex.cli certify "$out/run"
export HF_HOME="$out/cache" HF_HUB_OFFLINE=1
read_with() { # environment, format
    "$venv/bin/python" -m capex.cli export "$out/run" --out "$out/$2-images" --size 64 64 --depth --format "$2" >/dev/null
    "$venv/bin/python" -m capex.cli export "$out/run" --out "$out/$2-video" --size 64 64 --depth --format "$2" --video >/dev/null
    HF_HOME="$out/cache-$2" "$1/bin/python" scripts/read_lerobot.py "$out/$2-images" "$out/$2-video"
}
read_with "$old" lerobot-v2.1
read_with "$newest" lerobot
read_with "$newest" lerobot-v3.1
