#!/usr/bin/env bash
# Builds the documentation in both languages into build/site, without any network; a warning, such as a broken link,
# is a failure.
set -euo pipefail
here=$PWD
cd "$(dirname "$0")/.."

site=build/site
case ${1:-} in
  '') ;;
  /*) site=$1 ;;
  *) site=$here/$1 ;;
esac
if [ -e "$site" ] && [ -n "$(ls -A "$site")" ] && [ ! -e "$site/en/index.html" ] && [ "$site" != build/site ]; then
  echo "docs: $site holds something else than a site of ours: name another folder" >&2
  exit 1
fi
rm -rf "$site"
mkdir -p "$site"
cp tools/site/index.html "$site/"
# The theme's own end-of-life notice is no finding about our pages.
export NO_MKDOCS_2_WARNING=1
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# --quiet would silence the warnings that --strict counts.
build() {
  .venv/bin/python -m mkdocs build --strict -f "$1" --site-dir "$site/$2" >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
}
site=$(realpath "$site")
build mkdocs.yml en
build mkdocs.zh-Hans.yml zh-Hans
echo "docs: $site/index.html"
