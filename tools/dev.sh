#!/usr/bin/env bash
# Makes .venv: everything in requirements.lock, checked against its hashes, then our three packages in place.
# Ours are installed without resolving: their names belong to other publishers on public indexes.
set -euo pipefail
cd "$(dirname "$0")/.."
PYTHON=${PYTHON:-python3}

tools/needs.sh venv
[ -x .venv/bin/python ] || "$PYTHON" -m venv .venv
echo "installing into .venv (a minute the first time)"
.venv/bin/python -m pip install -qq --disable-pip-version-check --require-hashes -r requirements.lock
.venv/bin/python -m pip install -qq --disable-pip-version-check --no-deps --no-build-isolation -e core -e server -e forgelet
touch .venv/.ready
echo "ready: .venv/bin/sf, .venv/bin/starforge-console, .venv/bin/forgelet"
