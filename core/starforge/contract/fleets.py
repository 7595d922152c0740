"""The messages of the console's HTTP API about fleets, their nodes and GPUs; the rules of `contract.api` hold."""

from typing import Annotated, Literal

from pydantic import Field

from starforge.contract.api import Answer
from starforge.contract.jobspec import Frozen
from starforge.contract.sentence import Sentence

Words = Annotated[str, Field(max_length=500)]


class FleetSummary(Answer):
    """One fleet as a line.

    `gpus` counts by state: free (a job could have them now), withheld (free, but their machine takes no jobs now),
    held, foreign, quarantined, blocked.
    """

    name: str
    kind: str
    network: str
    user: str | None = None
    require_max_runtime: bool = Field(default=False, description="it takes only jobs with a time limit")
    nodes: int = 0
    ready: int = Field(default=0, description="how many of its nodes take jobs now")
    gpus: dict[str, int] = Field(default_factory=dict)


class FleetList(Answer):
    """`GET /fleets`, by name."""

    items: tuple[FleetSummary, ...]


class HolderView(Answer):
    """An attempt on a machine, and whose it is; `job` is None when the ledger does not know it."""

    attempt: str
    phase: str = ""
    job: str | None = None
    name: str | None = None
    user: str | None = None


class GpuDetail(Answer):
    """One GPU. `holder` is set while an attempt holds it."""

    uuid: str
    index: int
    name: str
    series: str | None = None
    memory_bytes: int | None = None
    state: str
    why: Sentence = ""
    holder: HolderView | None = None


class PullView(Answer):
    """An image that is being fetched; `total_bytes` is None until it is known."""

    image: str
    done_bytes: int
    total_bytes: int | None = None


class NodeDetail(Answer):
    """One machine.

    `state` is what administrators want of it (active, draining, lost), `status` how it is: ready, draining, lost,
    joining (no heartbeat yet), away, unreachable (from the console), superseded (two daemons with one identity) or
    unfit. What only registered machines have is None for the console's own.
    """

    name: str
    fleet: str
    state: str = "active"
    status: str
    why: Sentence = ""
    hostname: str | None = None
    advertise: str | None = None
    version: str | None = None
    legacy: bool = False
    joined_at: float | None = None
    joined_from: str | None = None
    heartbeat_at: float | None = None
    heard_s: float | None = Field(default=None, description="seconds since the last heartbeat")
    reach: str = Field(default="", description="why the console does not reach it; empty when it does")
    skew_s: float | None = Field(default=None, description="its clock minus the console's, at the last heartbeat")
    fence: int = 0
    epoch: int = 0
    cpus: float = 0.0
    memory_bytes: int = 0
    disk_free_bytes: int | None = None
    disk_total_bytes: int | None = None
    gpus: tuple[GpuDetail, ...] = ()
    gpus_unknown: Sentence = Field(default="", description="why nobody can say which GPUs it has")
    attempts: tuple[HolderView, ...] = ()
    pulls: tuple[PullView, ...] = ()


class NodeList(Answer):
    """`GET /nodes`: the machines of all fleets, by fleet and name."""

    items: tuple[NodeDetail, ...]


class FleetDetail(Answer):
    """`GET /fleets/{name}`. `unknown_gpus`: names that the hardware registry does not know."""

    fleet: FleetSummary
    nodes: tuple[NodeDetail, ...]
    unknown_gpus: tuple[str, ...] = ()
    unknown_attempts: tuple[str, ...] = Field(
        default=(), description="attempts that machines hold and the ledger does not know"
    )


class CreateFleet(Frozen):
    """`POST /fleets`. `user` is `uid:gid`, `image` for the image's own, None for the console's default."""

    name: str = Field(max_length=40)
    kind: Literal["local", "node"] = "node"
    network: Literal["bridge", "host", "none"] = "bridge"
    user: Annotated[str, Field(max_length=40)] | None = None
    require_max_runtime: bool = Field(default=False, description="it takes only jobs with a time limit")


class ChangeFleet(Frozen):
    """`PATCH /fleets/{name}`."""

    require_max_runtime: bool = Field(description="it takes only jobs with a time limit from now on")


class MintJoinToken(Frozen):
    """`POST /fleets/{name}/join-tokens`."""

    hours: float = Field(default=24.0, gt=0, le=2160)
    uses: int = Field(default=10, ge=1, le=1000)


class JoinTokenView(Answer):
    """A join token that still lets somebody in."""

    id: int
    uses_left: int
    created_by: str
    created_at: float
    expires_at: float


class JoinTokenList(Answer):
    """`GET /fleets/{name}/join-tokens`, newest first."""

    items: tuple[JoinTokenView, ...]


class MintedJoinToken(Answer):
    """A fresh join token, which is shown this once. `line` is pasted on the machine; `doubt` speaks against it."""

    id: int
    token: str
    line: str
    lines: dict[str, str]
    expires_at: float
    uses: int
    doubt: str = ""


class DrainNode(Frozen):
    """`POST /nodes/{name}/drain`. With `pause` the jobs there are paused, and go on elsewhere by themselves."""

    why: Words = ""
    pause: bool = False


class MarkLost(Frozen):
    """`POST /nodes/{name}/mark-lost`. `confirm` is the node's name."""

    confirm: Words


class EndUnknown(Frozen):
    """`POST /nodes/{name}/end-unknown`."""

    attempt: Annotated[str, Field(max_length=100)]


class NodeChanged(Answer):
    """A node after an administrator's word; `jobs` are those that failed as `node_lost`, or that a drain pauses."""

    node: str
    fleet: str
    state: str
    fence: int
    jobs: tuple[str, ...] = ()


class AddGpuSeries(Frozen):
    """`POST /gpu-series`."""

    name: Annotated[str, Field(min_length=1, max_length=200)]
    series: Annotated[str, Field(min_length=1, max_length=40)]


class GpuSeriesView(Answer):
    """A name that an administrator gave a series."""

    name: str
    series: str
    added_by: str
    added_at: float


class GpuSeriesList(Answer):
    """`GET /gpu-series`, by name."""

    items: tuple[GpuSeriesView, ...]
