#!/usr/bin/env bash
# Makes sure that what this system itself must provide is there: tools/needs.sh NAME…
# As root on Debian a missing need is installed from the distribution's packages; otherwise the script says what is missing
# and exits 1. A need named in ALLOW_SKIP (blanks or commas between names) may stay missing.
set -euo pipefail

python=${PYTHON:-python3}
allowed=" ${ALLOW_SKIP:-} "
allowed=${allowed//,/ }

package_of() {
  case "$1" in
    venv) echo python3-venv ;;
    engine) echo "docker.io iproute2 iptables util-linux" ;; # a private one: networks and namespaces of its own
    interpreters) echo pypy3 ;; # a second Python beside the system's own, and an older one
    postgres) echo postgresql ;; # the server that consoles may keep their ledger on
    registry) echo docker-registry ;; # images are asked for at a real one
    rsync) echo rsync ;; # the recipe for a backup is tried
    # the daemons, without accounting: REST by token, a key of munge's, nodes that are processes of this host
    slurm) echo "slurmctld slurmd slurmrestd slurm-client munge slurm-wlm-basic-plugins slurm-wlm-jwt-plugin tini util-linux" ;;
    tini) echo tini ;;
    frameworks) ;; # no package: pip fetches what the images of training frameworks hold
    clock) echo libfaketime ;; # a daemon whose clock is wrong
    browser) echo "chromium fonts-noto-cjk" ;;
    proxy) echo "nginx-light caddy" ;; # what teams put in front of the console
    systemd) echo "systemd systemd-sysv dbus" ;; # its files, for machines of tests that run it
    *) echo "tools/needs.sh: no need is called '$1'; known: venv engine interpreters clock postgres proxy registry rsync slurm tini browser systemd frameworks" >&2; exit 2 ;;
  esac
}

is_present() {
  case "$1" in
    venv) "$python" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null ;;
    engine) has_all dockerd docker containerd runc ip iptables unshare nsenter setpriv mount ;;
    interpreters) has_second_interpreter ;;
    postgres) compgen -G '/usr/lib/postgresql/1[5-9]/bin/initdb' >/dev/null ;;
    registry) has_all docker-registry ;;
    rsync) has_all rsync ;;
    slurm) has_all slurmctld slurmd slurmrestd scontrol munged tini unshare nsenter setpriv && has_slurm_tokens ;;
    frameworks) .venv/bin/python -m tools.framework_image ;;
    clock) compgen -G '/usr/lib/*/faketime/libfaketimeMT.so.1' >/dev/null ;;
    tini) command -v tini >/dev/null || command -v docker-init >/dev/null ;;
    systemd) [ -x /usr/lib/systemd/systemd ] && has_all apt-cache dpkg-query systemctl dbus-daemon ;;
    proxy) has_all nginx caddy ;;
    browser) command -v chromium >/dev/null && fc-list 2>/dev/null | grep 'Noto Sans CJK' >/dev/null ;;
  esac
}

# The plugin for tokens is a package of its own.
has_slurm_tokens() {
  compgen -G '/usr/lib/*/slurm-wlm/auth_jwt.so' >/dev/null || compgen -G '/usr/lib*/slurm/auth_jwt.so' >/dev/null
}

has_all() {
  local name
  for name in "$@"; do
    command -v "$name" >/dev/null || return 1
  done
}

has_second_interpreter() {
  local name
  for name in python3.8 python3.9 python3.10 python3.12 python3.13 pypy3; do
    # A version switcher may answer to a name that it does not provide, so the interpreter itself is asked.
    "$name" -c pass 2>/dev/null && return 0
  done
  compgen -G "${PYENV_ROOT:-$HOME/.pyenv}/versions/3.[89]*/bin/python" >/dev/null
}

missing=() packages=()
for need in "$@"; do
  package=$(package_of "$need")
  is_present "$need" || missing+=("$need:$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  read -ra packages <<<"${missing[*]#*:}" # one need may take several packages, or none
fi
if [ ${#packages[@]} -gt 0 ]; then
  echo "installing from the distribution: ${packages[*]}"
  log=$(mktemp)
  trap 'rm -f "$log"' EXIT
  { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends "${packages[@]}"; } \
    >"$log" 2>&1 || { tail -n 20 "$log" >&2; echo "apt-get could not install ${packages[*]}; see above" >&2; }
fi

left=0
for entry in "${missing[@]}"; do
  need=${entry%%:*}
  is_present "$need" && continue
  case "$allowed" in *" $need "*) echo "without $need, as ALLOW_SKIP says"; continue ;; esac
  if [ "$need" = venv ]; then
    echo "missing: Python 3.11 or newer with venv ('$python' is not that). Install the package python3-venv, or set PYTHON=/path/to/python3.11" >&2
  elif [ "$need" = frameworks ]; then
    echo "missing: frameworks. See above why their packages cannot be had, or leave them out with ALLOW_SKIP=frameworks" >&2
  else
    echo "missing: $need. Install the package ${entry#*:} (as root this is done for you), or leave it out with ALLOW_SKIP=$need" >&2
  fi
  left=1
done
exit "$left"
