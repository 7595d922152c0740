"""The fleet kind `local`: the console's own machine. Thin: one ContainerHost, called from threads of its own."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Final, ParamSpec, TypeVar

from starforge.containers.host import ContainerHost
from starforge.contract.executor import (
    Capabilities,
    FleetView,
    GpuView,
    LogChunk,
    NoRoom,
    PlacementAsk,
    Target,
)
from starforge.contract.ids import AttemptId
from starforge.contract.launch import LaunchRequest
from starforge.contract.observation import NoSignal, Observation
from starforge.hardware.series import find_series
from starforge_console.domain.placement import place_on_one_node

_P = ParamSpec("_P")
_T = TypeVar("_T")
_THREADS: Final = 8


class LocalExecutor:
    """Every promise of `starforge.contract.executor` on this machine, as ContainerHost keeps them."""

    kind: Final = "local"
    capabilities: Final = Capabilities(multi_node=False, pools=False, live_logs=True)

    def __init__(self, host: ContainerHost, fleet: str, series_of: Callable[[str], str | None] = find_series) -> None:
        """`series_of` names the series of a GPU that calls itself so, or None."""
        self._host = host
        self._fleet = fleet
        self._series_of = series_of
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix=f"fleet {fleet}")

    async def capacity(self) -> FleetView | NoSignal:
        """This machine, with the series of its GPUs."""
        node = await self._call(self._host.view)
        if isinstance(node, NoSignal):
            return node
        gpus = tuple(self._name_series(gpu) for gpu in node.gpus)
        return FleetView(fleet=self._fleet, nodes=(replace(node, gpus=gpus),))

    def place(self, ask: PlacementAsk, view: FleetView) -> Target | NoRoom:
        """Pure: this machine, or why it has no room."""
        return place_on_one_node(ask, view)

    async def launch(self, request: LaunchRequest, target: Target) -> None:
        """Start it here; raises as the protocol says."""
        del target  # there is one machine, and the container's name derives from the attempt
        await self._call(self._host.launch, request)

    async def observe(self, attempts: Collection[AttemptId]) -> Mapping[AttemptId, Observation]:
        """What this machine's engine says of these."""
        return await self._call(self._host.observe, attempts)

    async def fence(self, attempt: AttemptId) -> Observation:
        """Fence durably; see the protocol for what the answers mean."""
        return await self._call(self._host.fence, attempt)

    async def stop(self, attempt: AttemptId, remaining_s: float) -> None:
        """Begin to stop it; returns at once."""
        await self._call(self._host.stop, attempt, remaining_s)

    async def cleanup(self, attempt: AttemptId) -> None:
        """Remove what is left of it."""
        await self._call(self._host.cleanup, attempt)

    async def inventory(self) -> Mapping[AttemptId, Observation] | NoSignal:
        """Everything of this install on this machine."""
        return await self._call(self._host.inventory)

    async def sweep(self, known: Collection[AttemptId]) -> Sequence[str]:
        """Remove what is idle and not known."""
        return (await self._call(self._host.sweep, known)).removed

    async def find_native(self, attempt: AttemptId) -> str | None:
        """None: its container says what was asked for."""
        del attempt
        return None

    async def logs(self, attempt: AttemptId, cursor: str | None = None) -> AsyncIterator[LogChunk]:
        """The engine's own output of the attempt."""
        chunks = self._host.logs(attempt, cursor)
        while (chunk := await self._call(next, chunks, None)) is not None:
            yield chunk

    async def start(self, wake: Callable[[], None]) -> None:
        """Resume launches and listen to the engine."""
        await self._call(self._host.start, wake)

    async def close(self) -> None:
        """Stop listening. Containers are untouched."""
        await asyncio.to_thread(self._host.close)
        self._threads.shutdown(wait=False)

    def _name_series(self, gpu: GpuView) -> GpuView:
        return replace(gpu, series=self._series_of(gpu.name))

    async def _call(self, function: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, lambda: function(*args, **kwargs))
