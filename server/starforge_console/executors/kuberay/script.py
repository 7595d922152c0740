"""The script that KubeRay calls on the head, and that `spread` calls on every other node: pure, so that people see it.

It needs bash and coreutils in the image. What must hold whatever is submitted twice, restarted or arrives late: the
first who makes the start mark decides. A script that makes it begins the attempt; where it is there already, the script
starts nothing.
"""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from starforge.contract.launch import LaunchRequest
from starforge_console.executors.attempt_folder import START_MARK
from starforge_console.executors.filling import fill
from starforge_console.executors.kuberay.spread import LOST_NODE_CODE

OWN_FOLDER: Final = ".kuberay"
"""Below the attempt's directory, and the job user's: scripts, start mark, the wish to end, how it ended."""
ENTRY_FILE: Final = "entry.sh"
SPREAD_FILE: Final = "spread.py"
LOG_FILE: Final = "log"
STOP_FILE: Final = "stop"
"""Made by the console: the seconds that remain. Made on a node that is drained: the grace, and `left`."""
ENDED_FILE: Final = "ended"
"""The exit code, and `oom` where a process was killed for memory, or `left` where its node was taken away."""

NOT_STARTED_CODE: Final = 199
NO_FOLDER_CODE: Final = 197
KILL_AFTER_GRACE_S: Final = 20
PORT_BASE: Final = 24_000
"""The attempt's block of ports; its pods share a network with nobody."""

_THREADS: Final = "OMP_NUM_THREADS"
"""Ray sets it for its own processes; a command that did not ask for it is not to find it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptPlan:
    """What of an attempt its script depends on. `others` is how many nodes there are beside the first."""

    attempt: str
    command: Sequence[str]
    workdir: str
    grace_s: float
    others: int
    spans_ray: bool
    variables: Sequence[str]


def plan_script(request: LaunchRequest) -> ScriptPlan:
    """The plan for `request`."""
    return ScriptPlan(
        attempt=request.attempt,
        command=request.command,
        workdir=request.workdir,
        grace_s=request.grace_s,
        others=sum(pool.nodes for pool in request.pools) - 1,
        spans_ray=request.spans_ray,
        variables=tuple(request.env),
    )


def build_script(plan: ScriptPlan) -> str:
    """The script, whole. No secret is in it."""
    return fill(
        _SCRIPT,
        {
            "attempt": plan.attempt,
            "workdir": shlex.quote(plan.workdir),
            "own": OWN_FOLDER,
            "mark": START_MARK,
            "stop": STOP_FILE,
            "ended": ENDED_FILE,
            "log": LOG_FILE,
            "entry": ENTRY_FILE,
            "no_folder": NO_FOLDER_CODE,
            "not_started": NOT_STARTED_CODE,
            "lost_node": LOST_NODE_CODE,
            "grace": int(plan.grace_s),
            "after": KILL_AFTER_GRACE_S,
            "threads": "" if _THREADS in plan.variables else f"unset {_THREADS}",
            "command": shlex.join(["bash", *plan.command]),
            "spread": _SPREAD if plan.others and not plan.spans_ray else "",
            "address": 'export RAY_ADDRESS="$FORGE_POD_IP:6379"' if plan.spans_ray else "",
        },
    )


_SPREAD: Final = f"""\
{{
  "${{FORGE_PYTHON:-python3}}" $own/{SPREAD_FILE} || fail - {LOST_NODE_CODE}
}} </dev/null &
others=$!
"""

_SCRIPT: Final = """\
#!/bin/bash
# Attempt @attempt@. It begins at most once, whatever is submitted twice, restarted or arrives late.
set -u -m
umask 077
cd @workdir@ || exit @no_folder@ # bash says why
own=@own@ alive=@own@/alive-${FORGE_POD_UID:-none}
child='' kill_at='' others=''

ask_to_end() { # words of the wish; one that is there already stands
  [ ! -s $own/@stop@ ] && echo "$*" >$own/@stop@
}
fail() { # rank, code, oom or nothing; the first to fail says how the whole did
  (set -C; echo "$*" >$own/failed) 2>/dev/null
}
count_kills() {
  cat /sys/fs/cgroup/memory.events /sys/fs/cgroup/memory/memory.oom_control 2>/dev/null |
    sed -n 's/^oom_kill //p' | head -n 1
}
name_process() { # a process by its number and its start: numbers come again, in a container that was restarted too
  local stat
  stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 1
  set -- "$1" ${stat##*) }
  echo "$1 ${21}"
}
is_alive() { # whether the script of this pod still runs
  local pid=''
  read -r pid _ 2>/dev/null <"$alive"
  [ -n "$pid" ] && [ "$(name_process "$pid")" = "$(cat "$alive")" ]
}
end_in() { # seconds until what is left of it is killed; the first time it is asked to end
  local at=$((SECONDS + $1))
  [ -n "$kill_at" ] || kill -TERM "$child" 2>/dev/null
  if [ -z "$kill_at" ] || [ "$at" -lt "$kill_at" ]; then kill_at=$at; fi
}
look() { # whether somebody wishes the end, or another node failed
  local left=''
  # Opened, not only looked for: shared file systems remember for long what was not there, or was empty.
  read -r left _ 2>/dev/null <$own/@stop@
  case $left in *[!0-9]*) left=@grace@ ;; esac
  [ -n "$left" ] || [ ! -s $own/failed ] || left=@grace@
  [ -z "$left" ] || end_in $((left + @after@))
  if [ -n "$kill_at" ] && [ "$SECONDS" -ge "$kill_at" ]; then kill -KILL -- "-$child" 2>/dev/null; fi
}
run() { # rank: the command on this node, from its beginning to its end
  local kills code killed=''
  export FORGE_NODE_RANK=$1
  @threads@
  name_process $$ >"$alive"
  trap 'rm -f "$alive"' EXIT
  kills=$(count_kills)
  umask 022 # as in a container: others go on from what the job leaves
  @command@ </dev/null &
  child=$!
  umask 077
  while kill -0 "$child" 2>/dev/null; do
    look
    sleep 0.5
  done
  wait "$child"
  code=$?
  if [ "$code" != 0 ]; then
    [ "$(count_kills)" = "$kills" ] || killed=oom
    fail "$1" "$code" $killed
  fi
  return "$code"
}
trap 'ask_to_end @grace@' TERM

case ${1:-begin} in
leave) # the pod is taken away: it ends in time, and until then its node waits
  [ ! -s $own/@ended@ ] || exit 0
  grep -qs '^pod ' $own/@mark@ || exit 0
  ! ask_to_end @grace@ left || made=1
  if [ -s "$alive" ]; then
    while is_alive; do sleep 0.5; done
  elif [ -n "${made:-}" ]; then
    until [ -s $own/@ended@ ]; do sleep 0.5; done
  fi
  exit 0
  ;;
node) # rank, the first node's address
  exec >>"$own/@log@-$2" 2>&1
  export FORGE_LEADER_ADDR=$3
  run "$2"
  exit
  ;;
esac

if ! (set -C; echo "pod $FORGE_POD_UID $(date +%s)" >$own/@mark@) 2>/dev/null; then
  echo "starforge: nothing is started: $(head -c 200 $own/@mark@ 2>&1)" >&2
  exit @not_started@
fi
exec >>$own/@log@ 2>&1
export FORGE_LEADER_ADDR=$FORGE_POD_IP
@address@
@spread@
run 0
code=$?
if [ -n "$others" ]; then
  child=$others
  while kill -0 "$others" 2>/dev/null; do
    look
    sleep 0.5
  done
  wait "$others"
fi
words=''
[ ! -s $own/failed ] || read -r _ code words <$own/failed
if [ "$code" != 0 ] && [ -z "$words" ] && grep -qs ' left$' $own/@stop@; then words=left; fi
echo "$code${words:+ $words}" >$own/.ended
mv -f $own/.ended $own/@ended@
exit "$code"
"""
