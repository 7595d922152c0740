#!/usr/bin/env bash
# Writes requirements.lock: names, versions and hashes of everything the packages and tools declare, and no addresses.
# uv reads no pip configuration: where an index of your own is used, set UV_DEFAULT_INDEX for this one command.
set -euo pipefail
cd "$(dirname "$0")/.."

.venv/bin/uv lock -q
.venv/bin/uv export -q --frozen --no-header --no-emit-workspace --all-packages --all-extras --all-groups \
  --format requirements-txt -o requirements.lock
.venv/bin/python -m tools.node_lock --write
echo "requirements.lock: $(grep -c '^[a-z]' requirements.lock) packages"
