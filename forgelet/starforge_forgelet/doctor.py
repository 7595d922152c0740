"""The doctor: every check of this machine in turn, and the wait for a heartbeat."""

import time
from collections.abc import Iterator
from typing import Final

from starforge.containers.engine import Engine
from starforge.errors import NotFound, ProjectError, StarForgeError
from starforge.trust.signatures import Signer
from starforge_forgelet.engine_checks import check_disk, check_engine, check_gpu_runtime, check_gpus
from starforge_forgelet.findings import Finding, failed, passed, unchecked, warned
from starforge_forgelet.network_checks import check_ingest, check_port
from starforge_forgelet.settings import NodeSettings
from starforge_forgelet.state import NodeIdentity, NodeState, Pulse
from starforge_forgelet.storage_checks import check_storage
from starforge_forgelet.trial import check_in_container

HEARTBEAT: Final = "heartbeat"
_LOOK_S: Final = 0.2
_SKEW_S: Final = 5.0


def examine(settings: NodeSettings, port: int, *, quick: bool) -> Iterator[Finding]:
    """Each finding as soon as it is known; `quick` starts no container. `port` is where the daemon listens."""
    state = NodeState(settings.state_dir)
    found = _load_joined(state)
    identity = None if isinstance(found, Finding) else found
    yield found if isinstance(found, Finding) else passed("identity", f"node {found.node} of {found.server}")
    engine = Engine(str(settings.docker_socket))
    described = check_engine(engine)
    yield described.finding
    yield check_gpu_runtime(settings, described.told)
    yield check_gpus(settings, identity)
    yield check_disk(described.told)
    if identity is None:
        return
    storage = check_storage(settings, identity)
    yield storage
    yield check_ingest(identity)
    if quick:
        yield unchecked("container", "no container was started, as --quick says", "run 'forgelet doctor' without it")
    else:
        yield from check_in_container(engine, identity, storage)
    pulse = state.find_pulse()
    yield check_clock(pulse)
    yield check_port(identity, pulse, port, lenient=quick)


def wait_for_heartbeat(state: NodeState, limit_s: float) -> Finding:
    """Whether the console hears a heartbeat from now on, within `limit_s`; one that it heard before does not count."""
    before = state.find_pulse() or Pulse()
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        pulse = state.find_pulse() or Pulse()
        if pulse.heard_at is not None and pulse.heard_at != before.heard_at:
            return _tell_heard(pulse)
        time.sleep(_LOOK_S)
    last = state.find_pulse()
    why = "no daemon has served here yet" if last is None else last.trouble or "the daemon has said nothing since"
    return failed(
        HEARTBEAT,
        f"the console heard no heartbeat within {limit_s:g} s: {why}",
        "look whether the daemon runs, and at what it logs",
    )


def check_clock(pulse: Pulse | None) -> Finding:
    """How far this machine's clock is from the console's, as the last heartbeat found. Pure."""
    if pulse is None or pulse.skew_s is None:
        return unchecked("clock", "no heartbeat was heard yet, which compares the clocks", "start the daemon")
    message = f"{pulse.skew_s:+.1f} s against the console's"
    if abs(pulse.skew_s) > _SKEW_S:
        return warned("clock", message, "let both machines follow one time server (timedatectl set-ntp true)")
    return passed("clock", message)


def _load_joined(state: NodeState) -> NodeIdentity | Finding:
    try:
        identity = state.load_identity()
        Signer(state.load_pem())
    except (NotFound, ProjectError) as error:
        return failed("identity", _describe(error), error.next_step or "join again")
    return identity


def _tell_heard(pulse: Pulse) -> Finding:
    if pulse.reachable:
        return passed(HEARTBEAT, "the console hears this machine and reaches it")
    # It may just not have tried yet.
    return warned(HEARTBEAT, f"the console hears this machine; {pulse.trouble}", "see 'forgelet status' in a moment")


def _describe(error: StarForgeError) -> str:
    return f"{error.what}: {error.why}" if error.why else error.what
