"""The node itself: one machine's containers, who it is, and what keeps it from starting anything."""

import asyncio
import contextlib
import shutil
import time
from collections.abc import AsyncIterator, Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, ParamSpec, TypeVar

from starforge import __version__
from starforge.containers.engine import Engine
from starforge.containers.gpus import GpuSource, MadeUpGpus, NvidiaSmi
from starforge.containers.host import ContainerHost
from starforge.containers.settings import GpuRuntime, HostSettings, StorageMark
from starforge.contract.executor import LogChunk, Swept
from starforge.contract.ids import AttemptId
from starforge.contract.launch import LaunchRequest
from starforge.contract.observation import NoSignal, Observation, Phase, Seen
from starforge.contract.wire import Disk, NodeReport
from starforge.errors import BackendUnreachable, NodeFault
from starforge_forgelet.hearing import Hearing
from starforge_forgelet.settings import NodeSettings
from starforge_forgelet.state import NodeIdentity, NodeState

_THREADS: Final = 16
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_P = ParamSpec("_P")
_T = TypeVar("_T")


class Node:
    """One daemon's node. Calls go to the containers from threads of their own, so that none holds up another.

    Attributes:
        epoch: The epoch that this daemon serves in; 0 until it has taken one.
        superseded_by: The newer epoch of another daemon with this identity; this one starts nothing any more.
        fence: The highest fence number that was cleaned up for.

    """

    def __init__(self, host: ContainerHost, identity: NodeIdentity, state: NodeState, hearing: Hearing) -> None:
        self.identity = identity
        self.epoch = 0
        self.superseded_by: int | None = None
        self.fence = state.load_fence()
        self._hearing = hearing
        self._host = host
        self._state = state
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="containers")

    def note_heard(self, period_s: float) -> None:
        """Keep that the console hears this node, and wants to every `period_s`."""
        self._hearing.note(period_s)

    async def start(self, wake: Callable[[], None]) -> None:
        """Resume launches and listen; `wake` is called, from any thread, when something may have changed."""
        await self._call(self._host.start, wake)

    async def close(self) -> None:
        """Stop listening. Containers are untouched."""
        await self._call(self._host.close)
        self._threads.shutdown(wait=False)

    async def launch(self, request: LaunchRequest, fence: int) -> None:
        """Start `request` for a console that knows the node's fence number as `fence`.

        Raises:
            NoCapacity, NodeFault, LaunchRefused: nothing is left behind and nothing of this call starts later.
            BackendUnreachable: not known; a repeat is safe.

        """
        self._require_able(fence)
        await self._call(self._host.launch, request)

    async def observe(self, attempts: Collection[AttemptId] | None) -> dict[AttemptId, Observation]:
        """What is known of each of `attempts`; of everything of this install for None. Raises BackendUnreachable."""
        if attempts is not None:
            return await self._call(self._host.observe, attempts)
        held = await self._call(self._host.inventory)
        if isinstance(held, NoSignal):
            raise BackendUnreachable("the machine's engine does not answer", why=held.reason)
        return held

    async def close_door(self, attempt: AttemptId) -> Observation:
        """Fence `attempt` durably and say what is held of it."""
        return await self._call(self._host.fence, attempt)

    async def stop(self, attempt: AttemptId, remaining_s: float) -> None:
        """Begin to stop it; returns at once. Raises BackendUnreachable."""
        await self._call(self._host.stop, attempt, remaining_s)

    async def reap(self, attempt: AttemptId) -> None:
        """Remove what is left of an ended attempt. Raises Conflict, BackendUnreachable."""
        await self._call(self._host.cleanup, attempt)

    async def sweep(self, known: Collection[AttemptId]) -> Swept:
        """Remove what is idle and not known. Raises BackendUnreachable."""
        return await self._call(self._host.sweep, known)

    async def logs(self, attempt: AttemptId, cursor: str | None) -> AsyncIterator[LogChunk]:
        """The engine's own output of the attempt. Raises BackendUnreachable."""
        chunks = self._host.logs(attempt, cursor)
        while (chunk := await self._call(next, chunks, None)) is not None:
            yield chunk

    async def catch_up(self, fence: int, remove: Collection[AttemptId]) -> None:
        """End and remove what was declared lost, then keep `fence`: only then may anything start again.

        Raises:
            BackendUnreachable: the engine does not answer; the fence stands until a repeat works.

        """
        for attempt in remove:
            await self._call(self._host.remove, attempt)
        await self._call(self._state.write_fence, fence)
        self.fence = fence

    async def report(self) -> NodeReport:
        """What the node is now."""
        view, held = await asyncio.gather(self._call(self._host.view), self._call(self._host.inventory))
        seen = {} if isinstance(held, NoSignal) else {a: one for a, one in held.items() if isinstance(one, Seen)}
        return NodeReport(
            node=self.identity.node,
            install=self.identity.install,
            version=__version__,
            view=None if isinstance(view, NoSignal) else view,
            view_unknown=view.reason if isinstance(view, NoSignal) else "",
            attempts={attempt: one.phase.value for attempt, one in seen.items()},
            pulls=tuple(one.pull for one in seen.values() if one.pull is not None and one.phase is Phase.PREPARING),
            disk=await self._call(lambda: _find_disk(self._host.find_engine_root())),
            boot=await self._call(_read_boot_id),
            epoch=self.epoch,
            fence=self.fence,
            superseded=self.superseded_by is not None,
            at=time.time(),
        )

    def _require_able(self, fence: int) -> None:
        name = self.identity.node
        if self.superseded_by is not None:
            raise NodeFault(
                f"{name} starts nothing",
                why=f"another daemon with its identity has taken epoch {self.superseded_by}",
                next_step="end one of the two; on the machine that stays, run 'forgelet join'",
            )
        if self.epoch == 0:
            raise NodeFault(f"{name} starts nothing yet", why="its console has not answered its first question")
        if fence > self.fence:
            raise NodeFault(f"{name} starts nothing yet", why="it was marked lost and still has to clean up for that")

    async def _call(self, function: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, lambda: function(*args, **kwargs))


def build_node(settings: NodeSettings, state: NodeState, identity: NodeIdentity) -> Node:
    """The node of this machine, as `identity` says. Raises ProjectError when a folder of it cannot be used.

    It starts nothing while its console does not hear it.
    """
    hearing = Hearing(identity.heartbeat_s)
    host_settings = HostSettings(
        install=identity.install,
        node=identity.node,
        state_dir=state.host_dir,
        secrets_root=settings.secrets_dir / identity.install,  # a daemon of another install may share it
        gpu_runtime=settings.gpu_runtime,
        storage=StorageMark(root=Path(identity.storage_root), content=identity.storage_id),
        find_hindrance=hearing.find_hindrance,
    )
    host = ContainerHost(Engine(str(settings.docker_socket)), build_gpus(settings, identity.node), host_settings)
    return Node(host, identity, state, hearing)


def build_gpus(settings: NodeSettings, identity: str) -> GpuSource:
    """Where this machine's GPUs come from; made-up ones are stable for one `identity`."""
    if settings.gpu_runtime is GpuRuntime.NONE:
        return MadeUpGpus(settings.gpu_count, settings.gpu_name or "made-up GPU", identity)
    return NvidiaSmi(settings.gpu_count)


def _find_disk(folder: str | None) -> Disk | None:
    """Room where the engine keeps its images, when this process may see that."""
    if folder is None:
        return None
    with contextlib.suppress(OSError):
        usage = shutil.disk_usage(folder)
        return Disk(free_bytes=usage.free, total_bytes=usage.total)
    return None


def _read_boot_id() -> str:
    return _BOOT_ID.read_text().strip()
