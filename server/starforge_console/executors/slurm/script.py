"""The batch script of an attempt: pure, so that people can be shown exactly what a cluster would run.

It needs bash, coreutils and Slurm's own commands on the nodes, and starts the attempt's command once on every node.
What must hold whatever is submitted twice, queued again or arrives late: the first who makes the start mark decides. A
script that makes it begins the attempt; where it is there already, the script starts nothing.
"""

import base64
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from starforge.containers.spec import PORTS_PER_ATTEMPT
from starforge.contract.launch import LaunchRequest, Mount, PoolRequest
from starforge_console.executors.attempt_folder import START_MARK
from starforge_console.executors.filling import fill
from starforge_console.executors.slurm.ray import build_ray_script
from starforge_console.executors.slurm.settings import Runtime

OWN_FOLDER: Final = ".slurm"
"""Below the attempt's directory, and the job user's: start mark, secrets until they are read, the first failure."""
SECRETS_FILE: Final = "secrets"
LOG_FILE: Final = "log"
FAILED_FILE: Final = "failed"

NOT_STARTED_CODE: Final = 199
"""The script's exit code where another job, or a fence, was there before it."""
LIMIT_CODE: Final = 198
"""The script's exit code where the job did not end well after the warning that its time limit draws near."""
NO_FOLDER_CODE: Final = 197
KILL_AFTER_GRACE_S: Final = 20
LOOK_EVERY_S: Final = "0.5"
"""How often the scripts look whether what they started has ended."""
PORT_BASE: Final = 24_000
PORT_BLOCKS: Final = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptPlan:
    """What of an attempt its script depends on. `cpus` is by pool and node."""

    attempt: str
    command: Sequence[str]
    workdir: str
    image: str
    mounts: Sequence[Mount]
    pools: Sequence[PoolRequest]
    cpus: Sequence[int]
    grace_s: float
    runtime: Runtime
    variables: Sequence[str]
    """Names of the environment that a container must be given by name."""
    spans_ray: bool = False


def plan_script(request: LaunchRequest, runtime: Runtime, cpus: Sequence[int]) -> ScriptPlan:
    """The plan for `request`, whose pools get `cpus` on every node."""
    return ScriptPlan(
        attempt=request.attempt,
        command=request.command,
        workdir=request.workdir,
        image=request.image,
        mounts=request.mounts,
        pools=request.pools,
        cpus=cpus,
        grace_s=request.grace_s,
        runtime=runtime,
        variables=tuple(sorted(request.env)),
        spans_ray=request.spans_ray,
    )


def build_script(plan: ScriptPlan) -> str:
    """The batch script, whole. No secret is in it, and it takes none from its environment."""
    return fill(
        _BATCH,
        {
            "attempt": plan.attempt,
            "workdir": shlex.quote(plan.workdir),
            "own": OWN_FOLDER,
            "mark": START_MARK,
            "secrets": SECRETS_FILE,
            "no_folder": NO_FOLDER_CODE,
            "not_started": NOT_STARTED_CODE,
            "limit": LIMIT_CODE,
            "pause": LOOK_EVERY_S,
            "kill_after": int(plan.grace_s) + KILL_AFTER_GRACE_S,
            "port_base": PORT_BASE,
            "port_blocks": PORT_BLOCKS,
            "ports": PORTS_PER_ATTEMPT,
            "node": shlex.quote(_build_node_script(plan)),
            "opened": "\n".join(f"exec {_descriptor(group)}<{OWN_FOLDER}/{SECRETS_FILE}" for group in _groups(plan)),
            "on_failure": _END_OTHERS if len(plan.pools) > 1 else "",
            "started": "\n".join(_start_group(plan, group) for group in _groups(plan)),
        },
    )


_BATCH: Final = """\
#!/bin/bash
# Attempt @attempt@. It begins at most once, whatever is submitted twice, queued again or arrives late.
set -u
umask 077
cd @workdir@ || exit @no_folder@ # bash says why
if ! (set -C; echo "job $SLURM_JOB_ID ${SLURM_RESTART_COUNT:-0}" >@own@/@mark@) 2>/dev/null; then
  echo "starforge: nothing is started: $(head -c 200 @own@/@mark@ 2>&1)" >&2
  exit @not_started@
fi
@opened@
rm -f @own@/@secrets@

asked='' watchdog='' codes=0
end_in_time() { # the steps first; what is left after the grace is killed together with this script
  [ -z "$asked" ] || return 0
  asked=1
  scancel --signal=URG "$SLURM_JOB_ID"
  (
    left=@kill_after@
    for pause in 1 2 4 8; do # again, for a step that had only begun; it heeds the first alone
      sleep "$pause"
      left=$((left - pause))
      scancel --signal=URG "$SLURM_JOB_ID"
    done
    sleep "$left"
    kill -KILL $$
  ) >/dev/null 2>&1 &
  watchdog=$!
}
trap end_in_time URG
trap : TERM # Slurm's own end: the steps get it too

address=$(scontrol show node "$SLURMD_NODENAME" 2>/dev/null | sed -n 's/.*NodeAddr=\\([^ ]*\\).*/\\1/p' | head -n 1)
export FORGE_LEADER_ADDR=${address:-$SLURMD_NODENAME}
export FORGE_PORT_BASE=$((@port_base@ + SLURM_JOB_ID % @port_blocks@ * @ports@))
node=@node@
start() { # first rank, the words of srun
  local first=$1
  shift
  # One node that fails ends the others, and the first to fail says how the whole did.
  srun --kill-on-bad-exit=1 --input=all --export=ALL "$@" bash -c "$node" starforge "$first"@on_failure@
}
@started@
for group in $groups; do
  # A wait that a signal ends may lose an end of the same moment for good: it is asked for only once it is there.
  while kill -0 "$group" 2>/dev/null; do sleep @pause@; done
  wait "$group"
  code=$?
  [ "$code" -le "$codes" ] || codes=$code
done
[ -z "$watchdog" ] || kill "$watchdog" 2>/dev/null
if [ "$codes" != 0 ] && [ -s @own@/failed ]; then
  read -r _ codes _ <@own@/failed
fi
# The steps were told to end and nobody asked this script to: the time limit draws near.
[ "$codes" = 0 ] || [ -n "$asked" ] || [ ! -e @own@/warned ] || codes=@limit@
exit "$codes"
"""

_END_OTHERS: Final = " || { local code=$?; kill -URG $$; return $code; }"
"""What one pool does that fails: srun ends its own nodes, and knows nothing of another pool's."""

_NODE: Final = """\
set -u
umask 077
own=@own@
export FORGE_NODE_RANK=$(($1 + SLURM_PROCID))
secrets=$(mktemp -d "/dev/shm/starforge-@attempt@-$FORGE_NODE_RANK.XXXXXX") || exit @no_folder@
child='' asked=''
end() {
  asked=1
  [ -z "$child" ] || kill -TERM "$child" 2>/dev/null
}
end_in_time() {
  [ -z "$asked" ] || return 0
  end
  (sleep @kill_after@; kill -KILL "$child" 2>/dev/null; rm -rf "$secrets") </dev/null >/dev/null 2>&1 &
  watchdog=$!
}
watchdog=''
trap 'touch "$own/warned"; end_in_time' URG
trap 'rm -rf "$secrets"; end' TERM # Slurm kills soon after
trap 'rm -rf "$secrets"@remove@' EXIT
while read -r name value; do
  [ "$name" != . ] || break
  printf '%s' "$value" | base64 -d >"$secrets/$name"
done
exec </dev/null
umask 022 # as in a container: others go on from what the job leaves
export FORGE_SECRETS_DIR=$secrets
cd @workdir@ || exit @no_folder@
@run@ &
child=$!
[ -z "$asked" ] || kill -TERM "$child"
while kill -0 "$child" 2>/dev/null; do sleep @pause@; done
wait "$child"
code=$?
[ -z "$watchdog" ] || kill "$watchdog" 2>/dev/null
if [ "$code" != 0 ]; then
  memory=$(sed -n 's/^[0-9]*:memory://p' /proc/self/cgroup)
  unified=$(sed -n 's/^0:://p' /proc/self/cgroup)
  killed=''
  # Slurm tells of a kill for memory only where it was the batch script's own.
  counters=("/sys/fs/cgroup/memory$memory/memory.oom_control" "/sys/fs/cgroup$unified/memory.events")
  ! grep -qs '^oom_kill [1-9]' "${counters[@]}" || killed=oom
  (set -C; echo "$FORGE_NODE_RANK $code $killed" >"$own/failed") 2>/dev/null
fi
exit "$code"
"""


def _build_node_script(plan: ScriptPlan) -> str:
    return fill(
        _NODE,
        {
            "attempt": plan.attempt,
            "own": OWN_FOLDER,
            "no_folder": NO_FOLDER_CODE,
            "pause": LOOK_EVERY_S,
            # Whatever ended its client, the engine runs the container on.
            "remove": f"; docker rm --force {_name(plan)}" if plan.runtime is Runtime.DOCKER else "",
            "kill_after": int(plan.grace_s) + KILL_AFTER_GRACE_S,
            "workdir": shlex.quote(plan.workdir),
            "run": _run(plan),
        },
    )


def _run(plan: ScriptPlan) -> str:
    """The words that run the attempt's command on a node, or the part of a Ray cluster around it."""
    words = ["bash", *plan.command]
    if plan.spans_ray:
        nodes = sum(pool.nodes for pool in plan.pools)
        ray = build_ray_script(nodes, OWN_FOLDER, int(plan.grace_s) + KILL_AFTER_GRACE_S)
        words = ["bash", "-c", ray, "starforge", *plan.command]
    return f"{_RUNTIMES[plan.runtime](plan)} {shlex.join(words)}".strip()


def _apptainer(plan: ScriptPlan) -> str:
    binds = [f"--bind={mount.source}:{mount.target}:{'ro' if mount.read_only else 'rw'}" for mount in plan.mounts]
    image = plan.image if "://" in plan.image or plan.image.startswith("/") else f"docker://{plan.image}"
    words = shlex.join(["apptainer", "exec", "--nv", "--no-home", *binds])
    return f'{words} --bind="$secrets" --pwd={shlex.quote(plan.workdir)} {shlex.quote(image)}'


def _docker(plan: ScriptPlan) -> str:
    mounts = [
        f"--mount=type=bind,source={mount.source},target={mount.target}{',readonly' if mount.read_only else ''}"
        for mount in plan.mounts
    ]
    own = ("FORGE_NODE_RANK", "FORGE_LEADER_ADDR", "FORGE_PORT_BASE", "FORGE_SECRETS_DIR", "SLURM_CPUS_PER_TASK")
    names = [f"--env={name}" for name in (*plan.variables, *own)]
    words = shlex.join(["docker", "run", "--rm", "--init", "--network=host", "--entrypoint=", *mounts, *names])
    gpus = '${CUDA_VISIBLE_DEVICES:+--gpus "device=$CUDA_VISIBLE_DEVICES"}'
    name = f"--name={_name(plan)}"
    user = '--user="$(id -u):$(id -g)" --volume="$secrets:$secrets:ro"'
    return f"{words} {gpus} {name} {user} --workdir={shlex.quote(plan.workdir)} {shlex.quote(plan.image)}"


def _name(plan: ScriptPlan) -> str:
    return f'"starforge-{plan.attempt}-$FORGE_NODE_RANK"'


_RUNTIMES: Final = {
    Runtime.NONE: lambda _plan: "",
    Runtime.ENROOT: lambda _plan: "",  # its plugin of srun has put this very script inside
    Runtime.APPTAINER: _apptainer,
    Runtime.DOCKER: _docker,
}


def _start_group(plan: ScriptPlan, group: int) -> str:
    """The line that starts one pool's nodes; their ranks go on from those before."""
    pool = plan.pools[group]
    first = sum(one.nodes for one in plan.pools[:group])
    words = [f"--nodes={pool.nodes}", f"--ntasks={pool.nodes}", "--ntasks-per-node=1"]
    words += [f"--cpus-per-task={plan.cpus[group]}"]
    if len(plan.pools) > 1:
        words.insert(0, f"--het-group={group}")
    if plan.runtime is Runtime.ENROOT:
        words += _enroot(plan)
    line = f"start {first} {shlex.join(words)} <&{_descriptor(group)} &"
    return f"{line}\ngroups=$!" if group == 0 else f'{line}\ngroups="$groups $!"'


def _enroot(plan: ScriptPlan) -> list[str]:
    mounts = [
        *(f"{mount.source}:{mount.target}{':ro' if mount.read_only else ''}" for mount in plan.mounts),
        "/dev/shm:/dev/shm",  # noqa: S108 - the secrets lie there
    ]
    return [
        f"--container-image={plan.image}",
        f"--container-mounts={','.join(mounts)}",
        f"--container-workdir={plan.workdir}",
        "--no-container-mount-home",
    ]


def _groups(plan: ScriptPlan) -> range:
    return range(len(plan.pools))


def _descriptor(group: int) -> int:
    return 10 + group


def write_secrets(secrets: Mapping[str, str]) -> str:
    """The file of secrets as a node reads it: a name and its value in base64 a line, a dot at the end."""
    lines = [f"{name} {_encode(value)}" for name, value in sorted(secrets.items())]
    return "\n".join([*lines, ".", ""])


def _encode(value: str) -> str:

    return base64.b64encode(value.encode()).decode()
