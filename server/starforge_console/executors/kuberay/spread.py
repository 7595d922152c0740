"""How an attempt of several nodes is started on all of them where no program of its own spans them.

The program runs on the first node with the image's own Ray and the standard library alone. It starts the attempt's
script once on every other node, pinned there, and ends when all have ended. A node that is lost fails the attempt.
"""

from collections.abc import Mapping
from typing import Final

from starforge_console.executors.filling import fill

LOST_NODE_CODE: Final = 195
"""What an attempt fails with that lost one of its nodes, or could not reach it."""
JOIN_DEADLINE_S: Final = 600
ENV_POOL: Final = "FORGE_POOL_INDEX"
ENV_OTHERS: Final = "FORGE_OTHER_NODES"
RAYS_OWN: Final = ("CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS")
"""What Ray sets for its workers, and a command that is none of them is not to find."""


def build_spread(workdir: str, own: str, entry: str, asked: Mapping[str, str]) -> str:
    """The program for the script `entry` in the folder `own` of `workdir`; `asked` are the job's own variables."""
    return fill(
        _PROGRAM,
        {
            "workdir": repr(workdir),
            "own": repr(own),
            "entry": repr(entry),
            "forgotten": repr(RAYS_OWN),
            "kept": repr({name: asked[name] for name in RAYS_OWN if name in asked}),
            "pool": repr(ENV_POOL),
            "deadline": JOIN_DEADLINE_S,
            "lost_node": LOST_NODE_CODE,
        },
    )


_PROGRAM: Final = '''\
"""Starts the attempt's script on every node but this one; the first to fail is written down for all."""

import os
import subprocess
import sys
import time

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

WORKDIR, OWN, ENTRY = @workdir@, @own@, @entry@
FORGOTTEN, KEPT = @forgotten@, @kept@


def who_am_i():
    return int(os.environ.get(@pool@, "0")), os.environ.get("FORGE_POD_NAME", "")


def run_here(rank, leader):
    env = {name: value for name, value in os.environ.items() if name not in FORGOTTEN}
    env.update(KEPT)
    return subprocess.call(["bash", os.path.join(OWN, ENTRY), "node", str(rank), leader], cwd=WORKDIR, env=env)


def find_others(count):
    """The other nodes, in the order of their ranks."""
    here = ray.get_runtime_context().get_node_id()
    until = time.monotonic() + @deadline@
    while True:
        found = [node["NodeID"] for node in ray.nodes() if node["Alive"] and node["NodeID"] != here]
        if len(found) >= count:
            break
        if time.monotonic() > until:
            sys.exit("starforge: only %d of %d other nodes joined within @deadline@ s" % (len(found), count))
        time.sleep(0.5)
    asked = [(node, on(who_am_i, node).remote()) for node in found]
    return [node for _, node in sorted((ray.get(answer), node) for node, answer in asked)]


def on(function, node):
    pinned = NodeAffinitySchedulingStrategy(node_id=node, soft=False)
    return ray.remote(num_cpus=0, max_retries=0)(function).options(scheduling_strategy=pinned)


def fail(rank, code):
    try:
        with open(os.path.join(OWN, "failed"), "x") as file:
            file.write("%s %s\\n" % (rank, code))
    except FileExistsError:
        pass


def main():
    ray.init(address=os.environ.get("RAY_ADDRESS", "auto"), log_to_driver=False, logging_level="ERROR")
    others = find_others(int(os.environ["FORGE_OTHER_NODES"]))
    running = {
        on(run_here, node).remote(rank, os.environ["FORGE_LEADER_ADDR"]): rank for rank, node in enumerate(others, 1)
    }
    code = 0
    while running:
        (done,), _ = ray.wait(list(running), num_returns=1)
        rank = running.pop(done)
        try:
            code = ray.get(done) or code
        except ray.exceptions.RayError as error:
            print("starforge: node %d was lost: %s" % (rank, error), file=sys.stderr)
            fail(rank, @lost_node@)
            code = @lost_node@
    sys.exit(code)


main()
'''
