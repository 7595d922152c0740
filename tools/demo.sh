#!/usr/bin/env bash
# `make demo`: one real training on this machine, from an empty folder to a checked result.
set -euo pipefail
exec .venv/bin/python -m tools.demo
