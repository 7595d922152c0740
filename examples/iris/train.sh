#!/usr/bin/env bash
# Started in this folder, inside the experiment's image.
set -euo pipefail
exec "${PYTHON:-python3}" train.py
