"""Everything that the gates look at, taken at one moment: ledger, storage, fleets and the hub are asked here alone."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from starforge.contract.executor import Capabilities, FleetView
from starforge.contract.ids import Digest
from starforge.contract.jobspec import JobSpec
from starforge.recipes.model import Recipe
from starforge_console.admission.gate import FleetState, Snapshot
from starforge_console.admission.images import find_allowed, parse_patterns
from starforge_console.blobs.store import BlobStore
from starforge_console.clock import Clock
from starforge_console.domain.images import ImageAnswer
from starforge_console.domain.inputs import (
    START,
    CheckpointInput,
    HubAnswer,
    HubSource,
    InputFault,
    PathInput,
    find_hub_ref,
    find_named,
)
from starforge_console.ledger.accounts import Account
from starforge_console.ledger.database import Database
from starforge_console.ledger.fleets import Fleet, list_fleets
from starforge_console.ledger.quotas import load_usage
from starforge_console.ledger.secrets import list_secrets
from starforge_console.ledger.windows import load_windows
from starforge_console.wakeups import Wakeups

_Stored: TypeAlias = PathInput | CheckpointInput | InputFault


class FleetSource(Protocol):
    """What admission may know of executors."""

    def capabilities_of(self, fleet: str) -> Capabilities | None:
        """What the fleet's backend can do at all, or None when no backend serves it."""

    def last_view_of(self, fleet: str) -> FleetView | None:
        """The fleet's capacity as last heard, or None when its backend never answered or is away."""


class ImageSource(Protocol):
    """Who asks registries."""

    async def ask(self, image: str) -> ImageAnswer | None:
        """What the image's registry says of it, within a time limit; None where nobody is asked."""


class RehearsalSource(Protocol):
    """Who asks backends beforehand."""

    async def ask(self, spec: JobSpec, owner: str, fleet: str) -> str:
        """Why the fleet's backend would refuse the job; empty where it would not, or cannot be asked beforehand."""


class StoredSource(Protocol):
    """Who looks at storage and ledger. All of it waits: to be called from a thread."""

    def find_path(self, path: str) -> PathInput | InputFault:
        """The path below a data root, or why no job may have it."""

    def find_checkpoint(self, reference: str) -> CheckpointInput | InputFault:
        """The committed checkpoint of `run/JOB/checkpoint[@step=N]`, or why there is none."""

    def load_method(self, job: str) -> str:
        """The name of the method that `job` ran. Raises NotFound."""

    def is_adapter(self, start: CheckpointInput) -> bool:
        """Whether the checkpoint is an adapter without the weights that it belongs to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionSources:
    """Where a snapshot comes from."""

    ledger: Database
    blobs: BlobStore
    fleets: FleetSource
    rehearsals: RehearsalSource
    catalog: Mapping[str, Recipe]
    image_allow: str
    images: ImageSource
    image_unanswered: Literal["refuse", "warn"]
    hub: HubSource
    hub_unanswered: Literal["refuse", "warn"]
    stored: StoredSource
    clock: Clock
    wakeups: Wakeups


class Snapshots:
    """Takes them."""

    def __init__(self, sources: AdmissionSources) -> None:
        self._sources = sources
        self._images = parse_patterns(sources.image_allow)

    async def take(self, account: Account, spec: JobSpec) -> Snapshot:
        """Everything that decides on `spec` as a submission of `account`, at this moment."""
        sources = self._sources
        hub, image = await asyncio.gather(self._ask_hub(spec), self._ask_registry(spec))
        blob_bytes, stored, start_method, start_is_adapter = await asyncio.to_thread(self._look, spec)
        user_id, asks, now = account.user_id, bool(spec.spec.secrets), sources.clock.now()
        fleets, usage, secrets, windows = await sources.ledger.read(
            lambda c: (
                list_fleets(c),
                load_usage(c, now, user_id),
                list_secrets(c, user_id) if asks else (),
                load_windows(c),
            )
        )
        return Snapshot(
            catalog=sources.catalog,
            blob_bytes=blob_bytes,
            fleets=tuple(await asyncio.gather(*(self._describe_fleet(one, spec, account.user) for one in fleets))),
            images=self._images,
            image=image,
            image_unanswered=sources.image_unanswered,
            usage=usage,
            hub=hub,
            hub_endpoint=sources.hub.endpoint,
            hub_unanswered=sources.hub_unanswered,
            stored=stored,
            start_method=start_method,
            start_is_adapter=start_is_adapter,
            secrets=frozenset(one.name for one in secrets),
            windows=windows,
            now=now,
        )

    async def _ask_hub(self, spec: JobSpec) -> Mapping[str, HubAnswer]:
        named = {member: find_hub_ref(member, text) for member, text in find_named(spec).items() if member != START}
        refs = {member: ref for member, ref in named.items() if ref is not None}
        answers = await asyncio.gather(*map(self._sources.hub.ask, refs.values()))
        return dict(zip(refs, answers, strict=True))

    async def _ask_registry(self, spec: JobSpec) -> ImageAnswer | None:
        """Only about what is allowed: nobody is to make the console ask whom an administrator has ruled out."""
        image = spec.spec.framework.image
        return await self._sources.images.ask(image) if find_allowed(image, self._images) else None

    def _look(self, spec: JobSpec) -> tuple[int | None, Mapping[str, _Stored], str | None, bool]:
        """What the storage holds, of the start too. In the same thread the recipe is read, slowly the first time."""
        sources = self._sources
        sources.catalog.get(spec.spec.recipe.name)
        blob_bytes = sources.blobs.find_size_now(Digest(spec.spec.workspace.digest))
        stored: dict[str, _Stored] = {}
        for member, text in find_named(spec).items():
            if member == START:
                stored[member] = sources.stored.find_checkpoint(text)
            elif text.startswith("/"):
                stored[member] = sources.stored.find_path(text)
        return blob_bytes, stored, *self._look_at_start(stored.get(START))

    def _look_at_start(self, start: _Stored | None) -> tuple[str | None, bool]:
        """The method that made the checkpoint that is a start, and whether it is an adapter alone."""
        if not isinstance(start, CheckpointInput):
            return None, False
        source = self._sources.stored
        return source.load_method(start.job), source.is_adapter(start)

    async def _describe_fleet(self, fleet: Fleet, spec: JobSpec, owner: str) -> FleetState:
        fleets = self._sources.fleets
        is_asked = spec.spec.placement.fleet in {None, fleet.name}
        return FleetState(
            fleet=fleet,
            capabilities=fleets.capabilities_of(fleet.name),
            view=fleets.last_view_of(fleet.name),
            refusal=await self._sources.rehearsals.ask(spec, owner, fleet.name) if is_asked else "",
        )
