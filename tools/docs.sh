#!/usr/bin/env bash
# Builds the documentation into build/site and fails on a broken link.
set -euo pipefail
cd "$(dirname "$0")/.."

# The theme's own end-of-life notice is no finding about our pages.
NO_MKDOCS_2_WARNING=1 .venv/bin/python -m mkdocs build --quiet --strict --site-dir build/site
echo "docs: build/site/index.html"
