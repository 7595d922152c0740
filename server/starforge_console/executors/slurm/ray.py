"""How Ray spans an attempt's nodes: a head on the first, workers on the others, and the command on the first alone.

The script runs where the command would run, inside of its container if there is one, and with the image's own Ray. It
ends when the command does, and its exit code is the command's.
"""

from typing import Final

from starforge_console.executors.filling import fill

FIRST_PORT: Final = 32
"""Of an attempt's block of ports those from here on are Ray's; the ones below are the command's own."""
JOIN_DEADLINE_S: Final = 300
NOT_JOINED_CODE: Final = 196


def build_ray_script(nodes: int, own: str, stop_wait_s: int) -> str:
    """The script for a cluster of `nodes`; `own` is the folder that its nodes share, and the command its arguments."""
    values: dict[str, str | int] = {
        "nodes": nodes,
        "own": own,
        "first_port": FIRST_PORT,
        "stop_wait": stop_wait_s,
        "deadline": JOIN_DEADLINE_S,
        "not_joined": NOT_JOINED_CODE,
    }
    return fill(_SCRIPT, values)


_SCRIPT: Final = """\
set -u
python=${FORGE_PYTHON:-python3}
port=$((FORGE_PORT_BASE + @first_port@))
# A job that is stopped through Ray gets as long as any other.
export RAY_ADDRESS=$FORGE_LEADER_ADDR:$port RAY_JOB_STOP_WAIT_TIME_S=@stop_wait@ RAY_USAGE_STATS_ENABLED=0
IFS=, read -ra gpus <<<"${CUDA_VISIBLE_DEVICES:-}"
log=@own@/ray-$FORGE_NODE_RANK.log
temp=$(mktemp -d /tmp/ray-XXXXXX) || exit @not_joined@
trap 'rm -rf "$temp"' EXIT
start_ray() {
  exec "$python" -c 'import sys; from ray.scripts.scripts import main; sys.exit(main())' start --block \\
    --num-cpus="${SLURM_CPUS_PER_TASK:-1}" --num-gpus="${#gpus[@]}" --disable-usage-stats \\
    --dashboard-agent-listen-port=$((port + 4 + FORGE_NODE_RANK % 28)) "$@" >"$log" 2>&1
}
answers() {
  (exec 3<>"/dev/tcp/$FORGE_LEADER_ADDR/$port") 2>/dev/null
}
end_ray() {
  kill -TERM "$ray" 2>/dev/null
  wait "$ray"
}
driver='' asked=''
if [ "$FORGE_NODE_RANK" != 0 ]; then
  trap : TERM # the head says when all is over
  until answers; do
    [ ! -e @own@/ray-ended ] || exit 0
    sleep 0.5
  done
  start_ray --address="$RAY_ADDRESS" &
  ray=$!
  until [ -e @own@/ray-ended ]; do
    kill -0 "$ray" 2>/dev/null || { tail -n 20 "$log" >&2; exit @not_joined@; }
    sleep 0.5
  done
  end_ray
  exit 0
fi
trap 'asked=1; [ -z "$driver" ] || kill -TERM "$driver"' TERM
start_ray --head --port="$port" --node-ip-address="$FORGE_LEADER_ADDR" --temp-dir="$temp" \\
  --dashboard-port=$((port + 1)) --ray-client-server-port=$((port + 2)) &
ray=$!
until answers || [ -n "$asked" ]; do
  kill -0 "$ray" 2>/dev/null || { tail -n 20 "$log" >&2; exit @not_joined@; }
  sleep 0.2
done
"$python" -c '
import os, sys, time, ray
ray.init(address=os.environ["RAY_ADDRESS"], log_to_driver=False, logging_level="ERROR")
until = time.monotonic() + @deadline@
while sum(node["Alive"] for node in ray.nodes()) < @nodes@:
    if time.monotonic() > until:
        sys.exit("starforge: not every node joined the Ray cluster within @deadline@ s")
    time.sleep(0.3)
' || { touch @own@/ray-ended; end_ray; exit @not_joined@; }
bash "$@" &
driver=$!
[ -z "$asked" ] || kill -TERM "$driver"
while kill -0 "$driver" 2>/dev/null; do sleep 0.5; done
wait "$driver"
code=$?
touch @own@/ray-ended
end_ray
exit "$code"
"""
