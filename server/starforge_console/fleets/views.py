"""What each fleet offered when it was last asked: admission and pages read it, placement asks anew."""

from collections.abc import Mapping, Sequence

from starforge.contract.executor import Capabilities, Executor, FleetView
from starforge.contract.ids import AttemptId


class KnownFleets:
    """The executors by fleet, and the newest view of each."""

    def __init__(self, executors: Mapping[str, Executor]) -> None:
        self._executors = executors
        self._views: dict[str, FleetView] = {}

    def note(self, views: Sequence[FleetView]) -> None:
        """Keep what the fleets answered just now; one that did not answer keeps nothing."""
        self._views = {view.fleet: view for view in views}

    def capabilities_of(self, fleet: str) -> Capabilities | None:
        """What the fleet's backend can do at all, or None when no backend serves it."""
        executor = self._executors.get(fleet)
        return None if executor is None else executor.capabilities

    async def find_native(self, fleet: str, attempt: AttemptId) -> str | None:
        """What was sent to start the attempt; None where its fleet keeps none, or is not served any more."""
        executor = self._executors.get(fleet)
        return None if executor is None else await executor.find_native(attempt)

    def last_view_of(self, fleet: str) -> FleetView | None:
        """The fleet's capacity as last heard, or None when its backend never answered or is away."""
        view = self._views.get(fleet)
        return view if view is not None and view.complete else None

    def find_series(self, fleet: str, gpus: Sequence[str]) -> Sequence[str]:
        """The series of the fleet's GPUs of these UUIDs, each once; none where it is not known of each."""
        view = self._views.get(fleet)
        known = {gpu.uuid: gpu.series for node in view.nodes for gpu in node.gpus} if view is not None else {}
        found = sorted({known.get(gpu) or "" for gpu in gpus})
        return [] if "" in found else found

    def views(self) -> Sequence[FleetView]:
        """Every fleet's newest view."""
        return list(self._views.values())
