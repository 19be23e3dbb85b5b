#!/bin/sh
# Runs the environment contract and the expert on the newest MuJoCo and numpy, in an environment of its own ($VENV, default .venv-newest).
set -eu
cd "$(dirname "$0")/.."
venv=${VENV:-.venv-newest}
[ -x "$venv/bin/python" ] || "${PYTHON:-python3}" -m venv "$venv"
"$venv/bin/python" -m pip --disable-pip-version-check -q install --upgrade -e .
"$venv/bin/capex" doctor
for task in CloseToasterOvenDoor TurnOnMicrowave PickPlaceCounterToStove PickPlaceToasterToCounter PickPlaceSinkToCounter; do
    "$venv/bin/capex" check "kitchen:$task"
done
"$venv/bin/capex" check kitchen:CloseFridge --start 5
out=$(mktemp -d)
"$venv/bin/capex" expert kitchen:all --starts 0:5 --out "$out/run"
rm -rf "$out"
