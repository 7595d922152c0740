"""What a gate is, what it looks at and what it answers. A gate is pure: the snapshot was taken before it is asked."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from starforge.contract.api import Difference, RefusalView
from starforge.contract.canonical import Json
from starforge.contract.executor import Capabilities, FleetView
from starforge.contract.ids import JobId
from starforge.contract.jobspec import JobSpec
from starforge.recipes.model import Recipe
from starforge_console.admission.images import ImagePattern
from starforge_console.domain.images import ImageAnswer
from starforge_console.domain.inputs import CheckpointInput, HubAnswer, InputFault, PathInput
from starforge_console.domain.opening import Windows
from starforge_console.domain.quota import Usage
from starforge_console.ledger.accounts import Account
from starforge_console.ledger.fleets import Fleet


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """What was sent, and by whom. `is_trial`: nothing of it is kept, so that its workspace may still be to come.

    `again` is the job whose spec it is, with whatever that job keeps beside it.
    """

    account: Account
    spec: JobSpec
    allow_dirty: bool
    is_trial: bool = False
    difference: Difference | None = None
    config: Mapping[str, Json] | None = None
    lost_credentials: bool = False
    again: JobId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetState:
    """A fleet as admission knows it.

    Attributes:
        capabilities: None: it has no backend here.
        view: None: it was never answered.
        refusal: Why its backend would refuse the job, as it said when it was asked; empty where it said nothing.

    """

    fleet: Fleet
    capabilities: Capabilities | None
    view: FleetView | None
    refusal: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Everything that decides, at one moment.

    Attributes:
        blob_bytes: None: the workspace's blob is not here.
        image: What the registry said of the image; None where nobody was asked.
        usage: The limits that bind the user, and what is held under them.
        hub: What the hub said of each reference to it, by the member of the spec.
        stored: What was found on the storage for each path and checkpoint that is named, by the member.
        start_method: The method whose checkpoint the job starts from; None where it starts from none.
        start_is_adapter: Whether that checkpoint is an adapter (LoRA) without the weights that it belongs to.
        secrets: The names of the submitter's secrets, where the spec names any.
        windows: When fleets, teams and profiles may run.
        now: Unix seconds.

    """

    catalog: Mapping[str, Recipe]
    blob_bytes: int | None
    fleets: tuple[FleetState, ...]
    images: tuple[ImagePattern, ...]
    image: ImageAnswer | None = None
    image_unanswered: Literal["refuse", "warn"] = "warn"
    usage: Usage = field(default_factory=Usage)
    hub: Mapping[str, HubAnswer] = field(default_factory=dict)
    hub_endpoint: str = ""
    hub_unanswered: Literal["refuse", "warn"] = "refuse"
    stored: Mapping[str, PathInput | CheckpointInput | InputFault] = field(default_factory=dict)
    start_method: str | None = None
    start_is_adapter: bool = False
    secrets: frozenset[str] = frozenset()
    windows: Windows = field(default_factory=Windows)
    now: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a gate says. It passes without refusals; `against` names what was checked, in which version."""

    against: str = ""
    message: str = ""
    warnings: tuple[str, ...] = ()
    refusals: tuple[RefusalView, ...] = ()


class Gate(Protocol):
    """One question that every submission is asked."""

    @property
    def name(self) -> str:
        """The gate's name in records, refusals and documents."""

    def check(self, submission: Submission, snapshot: Snapshot) -> Verdict:
        """Pure: the answer for this submission."""
