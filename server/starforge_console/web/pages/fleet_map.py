"""A fleet as a page draws it: what each job holds, how many GPUs are in which state, and what is unknown. Pure."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from starforge.contract.executor import GpuState
from starforge.contract.fleets import FleetDetail, GpuDetail, HolderView, NodeDetail
from starforge.contract.observation import Phase
from starforge.hardware.series import SERIES_BY_NAME
from starforge_console.web.fleet_views import WITHHELD, count_as

GPUS_A_ROW: Final = 8
"""A row of the map; what is held over its end goes on in the next one."""
STATES: Final = (
    GpuState.HELD.value,
    GpuState.FREE.value,
    WITHHELD,
    GpuState.BLOCKED.value,
    GpuState.QUARANTINED.value,
    GpuState.FOREIGN.value,
)
"""What GPUs are counted as, in the order of bars and legends."""
STATUSES: Final = ("ready", "draining", "lost", "joining", "away", "unreachable", "superseded", "unfit")
SKEW_SHOWN_S: Final = 1.0
_NOT_IN_IDS: Final = re.compile(r"[^A-Za-z0-9-]")


@dataclass(frozen=True, slots=True)
class Hold:
    """GPUs side by side that the same attempt holds, or one that nobody of ours does."""

    gpus: tuple[GpuDetail, ...]

    @property
    def state(self) -> str:
        """What they are: one of STATES."""
        return self.gpus[0].state

    @property
    def why(self) -> str:
        """Why they are out of use; empty when they are not."""
        return self.gpus[0].why

    @property
    def holder(self) -> HolderView | None:
        """Whose attempt holds them."""
        return self.gpus[0].holder

    @property
    def numbers(self) -> str:
        """Their numbers on the machine: `3`, or `0-7`."""
        first, last = self.gpus[0].index, self.gpus[-1].index
        return str(first) if first == last else f"{first}\u2013{last}"


@dataclass(frozen=True, slots=True)
class GpuFault:
    """GPUs of one machine that are out of use for the same reason."""

    state: str
    why: str
    numbers: str


@dataclass(frozen=True, slots=True)
class Share:
    """How many GPUs are in a state, and where its part of the bar lies, in percent."""

    state: str
    count: int
    from_percent: float
    percent: float


@dataclass(frozen=True, slots=True)
class Stranger:
    """A container on a machine that the ledger knows nothing of; only a running one is ended by hand."""

    node: str
    attempt: str
    is_running: bool


@dataclass(frozen=True, slots=True)
class UnknownGpu:
    """A name that the hardware registry does not know, where it was met, and how often."""

    name: str
    count: int
    nodes: tuple[str, ...]
    memory_bytes: int | None


def build_holds(gpus: Sequence[GpuDetail]) -> list[Hold]:
    """The cells of a node's map, by the GPUs' numbers."""
    placed = enumerate(sorted(gpus, key=lambda gpu: gpu.index))
    return [Hold(tuple(gpu for _, gpu in group)) for _, group in groupby(placed, _cell_of)]


def list_counted(node: NodeDetail) -> list[GpuDetail]:
    """The node's GPUs in the states that sums and legends count them as."""
    return [gpu.model_copy(update={"state": count_as(node, gpu)}) for gpu in node.gpus]


def build_shares(gpus: Mapping[str, int]) -> list[Share]:
    """The parts of the bar of a fleet, those without any GPU left out."""
    total, shares, begun = sum(gpus.values()), [], 0
    for state in STATES:
        count = gpus.get(state, 0)
        if count:
            shares.append(Share(state, count, 100 * begun / total, 100 * count / total))
        begun += count
    return shares


def describe_kinds(node: NodeDetail) -> list[tuple[str, int]]:
    """What GPUs the node has: the series, or the driver's name where it has none, and how many."""
    return list(Counter(gpu.series.upper() if gpu.series else gpu.name for gpu in node.gpus).items())


def list_faults(node: NodeDetail) -> list[GpuFault]:
    """Why GPUs of the machine are quarantined or used by others, each reason once: a cell has little room for it."""
    found: dict[tuple[str, str], list[str]] = {}
    for gpu in node.gpus:
        if gpu.why and gpu.state in {GpuState.QUARANTINED, GpuState.FOREIGN}:
            found.setdefault((gpu.state, gpu.why), []).append(str(gpu.index))
    return [GpuFault(state, why, ", ".join(numbers)) for (state, why), numbers in found.items()]


def list_others(node: NodeDetail) -> list[HolderView]:
    """Attempts of the ledger that live on the node and hold no GPU."""
    with_gpus = {gpu.holder.attempt for gpu in node.gpus if gpu.holder is not None}
    return [one for one in _living(node) if one.job is not None and one.attempt not in with_gpus]


def list_strangers(detail: FleetDetail) -> list[Stranger]:
    """Containers of this install on the fleet's machines that the ledger does not know, by node."""
    return [
        Stranger(node.name, one.attempt, one.phase == Phase.RUNNING.value)
        for node in detail.nodes
        for one in _living(node)
        if one.job is None
    ]


def list_unknown_gpus(detail: FleetDetail) -> list[UnknownGpu]:
    """What to say of each name that the hardware registry does not know."""
    found = []
    for name in detail.unknown_gpus:
        met = [(node.name, gpu) for node in detail.nodes for gpu in node.gpus if gpu.name == name]
        nodes = tuple(dict.fromkeys(node for node, _ in met))
        memory = next((gpu.memory_bytes for _, gpu in met), None)
        found.append(UnknownGpu(name, len(met), nodes, memory))
    return found


def list_known_series(added: Sequence[str]) -> list[str]:
    """Every series that there is a name for: the built-in ones and those that administrators made."""
    return sorted({*SERIES_BY_NAME.values(), *added})


def name_element(node: str) -> str:
    """The id of the node's element; this host's own name may hold signs that a selector would read."""
    return f"node-{_NOT_IN_IDS.sub('_', node)}"


def _living(node: NodeDetail) -> Iterator[HolderView]:
    return (one for one in node.attempts if one.phase != Phase.EXITED.value)


def _cell_of(placed: tuple[int, GpuDetail]) -> tuple[int, str, str]:
    """GPUs with the same key stand in one cell: those of one attempt within a row; every other one stands alone."""
    position, gpu = placed
    return position // GPUS_A_ROW, gpu.state, gpu.holder.attempt if gpu.holder is not None else str(position)
