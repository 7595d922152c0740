"""What a script may ask of this machine before it goes on."""

from starforge.containers import labels
from starforge.containers.engine import Engine
from starforge.containers.listing import load_listing
from starforge.errors import Conflict, NotFound
from starforge_forgelet.credential import load_credential
from starforge_forgelet.settings import NodeSettings, require_storage_root
from starforge_forgelet.state import NodeState

_IDLE = frozenset({labels.State.CREATED.value, labels.State.EXITED.value, labels.State.DEAD.value})


def require_joined(settings: NodeSettings, console: str) -> None:
    """Raises NotFound, Conflict or ProjectError unless this machine has joined `console` and can still prove it."""
    state = NodeState(settings.state_dir)
    identity = state.load_identity()
    load_credential(state, identity)
    state.load_epoch()
    state.load_fence()
    if identity.server != console.rstrip("/"):
        raise Conflict(
            f"this machine has joined {identity.server}, not {console}", next_step="join again to move it there"
        )
    require_storage_root(settings, identity.storage_root)


def require_idle(settings: NodeSettings) -> None:
    """Raises Conflict when a job of this machine's console runs, and BackendUnreachable when nobody can tell."""
    try:
        identity = NodeState(settings.state_dir).load_identity()
    except NotFound:
        return  # it has never run a job
    found = load_listing(Engine(str(settings.docker_socket)), f"{labels.INSTALL}={identity.install}")
    running = [str(one["Labels"].get(labels.ATTEMPT, one["Id"])) for one in found if one["State"] not in _IDLE]
    if running:
        raise Conflict(
            f"{len(running)} jobs run on this machine: {', '.join(sorted(running))}",
            next_step="drain the node and wait until they have ended",
        )
