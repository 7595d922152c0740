"""Which GPUs, CPUs, memory and ports an attempt gets on this machine: pure, from what the listing claims."""

from collections.abc import Collection, Sequence
from typing import Final

from starforge.containers.facts import HostFacts
from starforge.containers.gpu_users import find_stranger
from starforge.containers.gpus import GpuSurvey
from starforge.containers.labels import Claim
from starforge.containers.spec import (
    PORTS_PER_ATTEMPT,
    Allotment,
    Share,
    decide_share,
    explain_cpus,
    explain_memory,
    require_one_node,
)
from starforge.contract.launch import LaunchRequest, Network
from starforge.errors import NoCapacity
from starforge.hardware.series import find_series, matches

_PORT_BLOCKS: Final = 128
"""From 24000 on they end below the ports that Linux itself gives to outgoing connections (32768)."""


def decide_allotment(
    request: LaunchRequest,
    claims: Sequence[Claim],
    survey: GpuSurvey,
    facts: HostFacts,
    port_base: int,
) -> Allotment:
    """The room for `request` beside everything that `claims` holds, lowest GPU index first.

    Raises LaunchRefused for what no single machine can take, NoCapacity with the numbers when there is no room now.
    """
    pool = require_one_node(request)
    living = [claim for claim in claims if claim.holds(facts.boot) and claim.attempt != request.attempt]
    labelled = {claim.container for claim in claims}
    used = {gpu.uuid for gpu in survey.gpus if find_stranger(gpu.users, labelled)}
    held = {gpu for claim in living for gpu in claim.gpus}
    gpus = _choose_gpus(request, survey, held | used, pool.gpus_per_node)
    share = decide_share(pool, facts.cpus, facts.memory_bytes, len(survey.gpus))
    _require_room(request, share, living, facts)
    port = None
    if request.network is Network.HOST:
        taken = {claim.port for claim in living if claim.port is not None}
        port = _choose_port(request, taken, facts.listening, port_base)
    return Allotment(gpus, share, port)


def find_rivals(claims: Sequence[Claim], own: str, gpus: Collection[str], boot: str) -> list[Claim]:
    """Other containers that hold one of `gpus` beside the container `own`."""
    return [
        claim
        for claim in claims
        if claim.container != own and claim.holds(boot) and not set(gpus).isdisjoint(claim.gpus)
    ]


def _choose_gpus(request: LaunchRequest, survey: GpuSurvey, held: set[str], wanted: int) -> tuple[str, ...]:
    series = request.pools[0].series
    # A name that is not known here may be one that the console's administrator added: the console has placed it.
    named = [(gpu, find_series(gpu.name)) for gpu in survey.gpus]
    fitting = [gpu for gpu, known in named if known is None or matches(series, known)]
    healthy = [gpu for gpu in fitting if not gpu.why_not]
    free = [gpu.uuid for gpu in sorted(healthy, key=lambda gpu: gpu.index) if gpu.uuid not in held]
    if len(free) < wanted:
        busy = len(healthy) - len(free)
        raise NoCapacity(
            f"{request.attempt} asks for {wanted} GPUs and {len(free)} are free here",
            why=f"{len(fitting)} of that series, {len(healthy)} healthy, {busy} of these held or used",
        )
    return tuple(free[:wanted])


def _require_room(request: LaunchRequest, share: Share, living: Sequence[Claim], facts: HostFacts) -> None:
    pool = request.pools[0]
    free_cpus = facts.cpus - sum(claim.cpus for claim in living)
    free_memory = facts.memory_bytes - sum(claim.memory_bytes for claim in living)
    if share.cpus > free_cpus + 1e-6:
        raise NoCapacity(
            f"{request.attempt} asks for {share.cpus:g} CPUs{explain_cpus(pool)} and {free_cpus:g} are free here",
            why=f"the machine has {facts.cpus:g}",
        )
    if share.memory_bytes > free_memory:
        raise NoCapacity(
            f"{request.attempt} asks for {share.memory_bytes} bytes of memory{explain_memory(pool)}"
            f" and {free_memory} are free here",
            why=f"the machine has {facts.memory_bytes}",
        )


def _choose_port(request: LaunchRequest, taken: Collection[int], listening: Collection[int], base: int) -> int:
    for block in range(_PORT_BLOCKS):
        port = base + block * PORTS_PER_ATTEMPT
        if port not in taken and not any(port <= one < port + PORTS_PER_ATTEMPT for one in listening):
            return port
    raise NoCapacity(
        f"{request.attempt} needs ports on the host's network and all {_PORT_BLOCKS} blocks are taken",
        why=f"of {PORTS_PER_ATTEMPT} ports each from {base} on, by other attempts or by whoever listens there",
    )
