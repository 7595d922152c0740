#!/bin/bash
# Starts the runner inside the user's image. Run in the attempt's directory: bash .starforge/capsule/bootstrap.sh
# It checks that the capsule is the one that was launched, finds the image's own Python (3.8 or newer) and hands over.
# Exit 97: the capsule was changed. Exit 98: no Python that fits. Needs bash alone; sha256sum or Python for the digests.
set -u

capsule=.starforge/capsule
digest=${FORGE_CAPSULE_DIGEST:-}
digest=${digest##*:}

refuse() {
  printf 'starforge: %s\n' "$2" >&2
  exit "$1"
}

# Sets `python`, or `tried` to a list of what was found and why it does not fit.
find_python() {
  local candidate found
  python='' tried=''
  if [ -n "${FORGE_PYTHON:-}" ]; then
    set -- "$FORGE_PYTHON"
  else
    set -- ${VIRTUAL_ENV:+"$VIRTUAL_ENV/bin/python"} ${CONDA_PREFIX:+"$CONDA_PREFIX/bin/python"} python3 python
  fi
  for candidate; do
    found=$(command -v -- "$candidate") || continue
    case $(readlink -f -- "$found" 2>/dev/null) in
      */python3.[89] | */python3.[1-9][0-9])
        python=$found # its name tells the version: starting it only to ask would cost a quarter of the whole start
        return 0
        ;;
    esac
    if "$found" -S -E -c 'import sys; sys.exit(sys.version_info < (3, 8))' 2>/dev/null; then
      python=$found
      return 0
    fi
    tried="$tried${tried:+, }$found is $("$found" -S -E -c 'import sys; print("Python %d.%d.%d" % sys.version_info[:3])' 2>/dev/null || echo 'no working Python')"
  done
  return 1
}

[ -n "$digest" ] || refuse 97 "FORGE_CAPSULE_DIGEST is not set: the capsule cannot be checked"
[ -r "$capsule/SHA256SUMS" ] || refuse 97 "$capsule/SHA256SUMS cannot be read: the capsule is not mounted, or not readable for uid $(id -u 2>/dev/null)"

if command -v sha256sum >/dev/null 2>&1; then
  printf '%s  %s\n' "$digest" "$capsule/SHA256SUMS" | sha256sum -c - >/dev/null 2>&1 ||
    refuse 97 "the capsule was changed after it was prepared: SHA256SUMS is not the one that was launched"
  changed=$(cd "$capsule" && sha256sum -c SHA256SUMS 2>/dev/null) ||
    refuse 97 "the capsule was changed after it was prepared: $(printf '%s\n' "$changed" | while IFS= read -r line; do case $line in *': OK') ;; *) printf '%s; ' "$line" ;; esac; done)retry the job"
  find_python
else
  find_python && ! "$python" -I -S -c '
import hashlib, sys
def digest(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()
capsule, wanted = sys.argv[1:]
ok = digest(capsule + "/SHA256SUMS") == wanted
with open(capsule + "/SHA256SUMS") as file:
    ok = ok and all(digest(capsule + "/" + name.strip()) == sum for sum, name in (line.split(None, 1) for line in file))
sys.exit(not ok)
' "$capsule" "$digest" && refuse 97 "the capsule was changed after it was prepared: a digest differs; retry the job"
fi

[ -n "$python" ] || refuse 98 "the runner needs Python 3.8 or newer; this image has ${tried:-no Python on its PATH${FORGE_PYTHON:+ and nothing at FORGE_PYTHON=$FORGE_PYTHON}}. Name another image, or set FORGE_PYTHON to the Python that trains"
exec "$python" -I -S "$capsule/runner.pex" run
