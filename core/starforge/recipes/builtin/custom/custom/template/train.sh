#!/usr/bin/env bash
# Started in this folder, inside the experiment's image. Put your own launch line here.
set -euo pipefail
exec "${FORGE_PYTHON:-python3}" train.py
