"""Assembles attempts: reads the spec, makes folders and capsule on the storage, gives the LaunchRequest."""

import asyncio
import json
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, NamedTuple

from starforge.containers.settings import StorageMark
from starforge.containers.storage import StorageCheck
from starforge.contract.canonical import digest_bytes
from starforge.contract.capsule import INGEST_TOKEN_NAME, ControlFile, Desired, Ingest
from starforge.contract.ids import AttemptId, Digest, JobId, job_of, new_attempt_id, new_job_id, number_of
from starforge.contract.jobspec import JobSpec, parse_jobspec
from starforge.contract.launch import IMAGE_USER, LaunchRequest, Secret, parse_user
from starforge.errors import LaunchRefused, NodeFault
from starforge.recipes.model import Recipe
from starforge.said.sentence import say
from starforge_console.assembly.build import Placed, build_capsule, build_request, needs_ray
from starforge_console.assembly.capsule import (
    load_runner_digest,
    make_folders,
    make_own_folders,
    make_places,
    write_capsule,
    write_control,
)
from starforge_console.assembly.images import AttemptImages
from starforge_console.assembly.inputs import bind_inputs
from starforge_console.assembly.layout import AttemptLayout, StorageLayout
from starforge_console.assembly.secrets import AttemptSecrets
from starforge_console.assembly.tokens import attempt_token
from starforge_console.domain.inputs import HubInput, JobInputs
from starforge_console.domain.job import JobInFlight
from starforge_console.domain.outputs import decide_outputs, list_earlier_outputs
from starforge_console.ledger.database import Database
from starforge_console.ledger.endings import list_lost_attempts
from starforge_console.ledger.fleets import Fleet
from starforge_console.ledger.image_pins import load_image_pins
from starforge_console.ledger.inputs import load_inputs
from starforge_console.ledger.jobs import load_owner, load_spec
from starforge_console.ledger.lineages import Assembled, note_assembled
from starforge_console.ledger.secrets import keep_given

_NOTHING: Final = digest_bytes(b"")
"""Stands for the capsule of what is never started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AssemblySettings:
    """What every attempt of this console shares.

    Attributes:
        storage_id: What the storage's mark must hold; anything else means that the share is not mounted.
        job_user: Used where a fleet names no user of its own.
        ingest_ca: PEM of the private CA that signed the ingest's certificate; None for a public one, or without TLS.
        secrets: What attempts are given of their owners' secrets.
        images: What the image of a spec means to an attempt.
        bare_kinds: Kinds of fleets whose machines run jobs without a container.
        submitters: By kind of fleet (uid, gid) of each account; a kind that is missing runs all jobs as one user.
        usage_period_s: How often runners sample how busy their machine is; None for never.

    """

    install: str
    storage: StorageLayout
    storage_id: str
    runner: Path
    ingest_url: str
    job_user: tuple[int, int]
    token_key: bytes
    secrets: AttemptSecrets
    images: AttemptImages
    bare_kinds: frozenset[str] = frozenset()
    submitters: Mapping[str, Mapping[str, tuple[int, int]]] = field(default_factory=dict)
    usage_period_s: float | None = None
    ingest_ca: str | None = None


class _Kept(NamedTuple):
    """What the ledger keeps of a job that is assembled; `lost` are the numbers of attempts whose machine was lost."""

    spec: JobSpec
    owner: str
    inputs: JobInputs
    lost: Collection[int]


class Assembler:
    """Makes attempts ready to start. Preparing one twice gives the same request and the same files."""

    def __init__(
        self,
        settings: AssemblySettings,
        catalog: Mapping[str, Recipe],
        fleets: Mapping[str, Fleet],
        ledger: Database,
        find_refusal: Callable[[HubInput], str] = lambda _input: "",
    ) -> None:
        """`find_refusal` says why an input can never be had, in a text that is empty where that is not known."""
        self._settings = settings
        self._catalog = catalog
        self._fleets = fleets
        self._ledger = ledger
        self._find_refusal = find_refusal
        self._mounted = StorageCheck(StorageMark(root=settings.storage.root, content=settings.storage_id))

    async def prepare(self, job: JobInFlight) -> LaunchRequest:
        """The LaunchRequest of the job's newest attempt, with its folders and capsule on disk.

        Raises:
            NodeFault: the storage is not mounted, or refused.
            LaunchRefused: the method is not published here any more, the workspace is gone, or an input, a secret of
                the owner's or the login for the image's registry cannot be had.

        """
        text, owner, inputs, lost, pins = await self._ledger.read(
            lambda c: (
                load_spec(c, job.id),
                load_owner(c, job.id),
                load_inputs(c, job.id),
                list_lost_attempts(c, job.id),
                load_image_pins(c, job.id),
            )
        )
        self._require_had(inputs)
        spec = parse_jobspec(json.loads(text))
        given = await self._settings.secrets.open_for(job.attempt.id, spec.spec.secrets)
        image = await self._settings.images.choose(spec.spec.framework.image, pins)
        request, runner = await asyncio.to_thread(self._prepare, _Kept(spec, owner, inputs, lost), job)
        made = Assembled(capsule=request.capsule_digest, runner=runner, is_bare=self._is_bare(job.attempt.target.fleet))
        await self._ledger.write(lambda c: note_assembled(c, request.attempt, made))
        if given.sealed:
            await self._ledger.write(lambda c: keep_given(c, given.to, given.sealed, given.at))
        secrets = {**given.opened, **request.secrets}
        return replace(request, image=image.reference, registry_login=image.login, secrets=secrets)

    def build_trial(self, spec: JobSpec, owner: str, fleet: str) -> LaunchRequest:
        """What the first attempt of such a job would be sent to `fleet` as; nothing is made. Raises LaunchRefused."""
        recipe = self._catalog.get(spec.spec.recipe.name)
        if recipe is None:
            raise LaunchRefused(
                say("launch.no_method", method=spec.spec.recipe.name), next_step=say("launch.submit_again")
            )
        attempt = new_attempt_id(new_job_id(), 1)
        placed = self._build_placed(self._fleets[fleet], attempt, owner)
        placed = replace(placed, spans_ray=needs_ray(spec, recipe))
        return build_request(spec, placed, self._settings.storage, _NOTHING, {INGEST_TOKEN_NAME: Secret("")})

    async def tell(self, attempt: AttemptId, desired: Desired, grace_s: float | None, sequence: int) -> None:
        """Write the desired state where the attempt's runner looks."""
        path = self._settings.storage.attempt(attempt).control
        await asyncio.to_thread(write_control, path, ControlFile(desired, grace_s, sequence))

    def token(self, attempt: AttemptId) -> str:
        """The token with which `attempt` reports."""
        return attempt_token(self._settings.token_key, attempt)

    async def find_words(self, attempt: AttemptId) -> Sequence[str]:
        """What nothing may show that `attempt` says: its token, and the secrets that it was given."""
        return (self.token(attempt), *await self._settings.secrets.find_words(attempt))

    def _require_had(self, inputs: JobInputs) -> None:
        for one in inputs.values():
            refusal = self._find_refusal(one) if isinstance(one, HubInput) else ""
            if refusal:
                raise LaunchRefused(say("launch.no_input", why=refusal), next_step=say("launch.mend_submit"))

    def _prepare(self, kept: _Kept, job: JobInFlight) -> tuple[LaunchRequest, Digest]:
        spec = kept.spec
        recipe = self._catalog.get(spec.spec.recipe.name)
        if recipe is None:
            raise LaunchRefused(
                say("launch.no_method", method=spec.spec.recipe.name), next_step=say("launch.submit_again")
            )
        self._mounted.require()
        self._require_workspace(Digest(spec.spec.workspace.digest))
        storage = self._settings.storage
        nodes = sum(pool.nodes for pool in spec.spec.resources.pools)
        placed = replace(self._place(kept, job), spans_ray=needs_ray(spec, recipe))
        layout = storage.attempt(placed.attempt)
        owner = None if placed.user is None else parse_user(placed.user)
        try:
            make_folders((*layout.writable(nodes), placed.out), owner)
            make_own_folders(layout.own())
            make_places(layout.places(), bare=placed.is_bare)
            digest = write_capsule(layout.capsule, build_capsule(spec, recipe, placed, storage), self._settings.runner)
            runner = load_runner_digest(layout.capsule)
        except OSError as error:
            raise NodeFault(
                say("launch.storage_refused", why=str(error.strerror)),
                why=str(error.filename or storage.root),
                next_step=say("launch.storage_refused_next"),
            ) from error
        secrets = {INGEST_TOKEN_NAME: Secret(self.token(placed.attempt))}
        return build_request(spec, placed, storage, digest, secrets), runner

    def _require_workspace(self, digest: Digest) -> None:
        if not self._settings.storage.blob(digest).is_file():
            raise LaunchRefused(
                say("launch.no_workspace", digest=digest),
                why=say("launch.no_workspace_why"),
                next_step=say("launch.submit_again"),
            )

    def _place(self, kept: _Kept, job: JobInFlight) -> Placed:
        fleet = self._fleets[job.attempt.target.fleet]
        number, storage = job.attempt.number, self._settings.storage
        placed = self._build_placed(fleet, job.attempt.id, kept.owner)
        earlier = [storage.outputs(job.id, first) for first in list_earlier_outputs(number, kept.lost)]
        resumes = kept.spec.spec.lifecycle.resume == "auto"
        return replace(
            placed,
            out=storage.outputs(job.id, decide_outputs(number, kept.lost)),
            earlier_out=[one for one in earlier if one.is_dir() and not one.is_symlink()],
            resume_from=self._older_checkpoints(job.attempt.id) if resumes else (),
            inputs=bind_inputs(storage, kept.inputs, is_bare=placed.is_bare),
        )

    def _build_placed(self, fleet: Fleet, attempt: AttemptId, owner: str) -> Placed:
        """What of an attempt its fleet and owner decide, as if it was the first."""
        settings = self._settings
        return Placed(
            attempt=attempt,
            install=settings.install,
            fleet=fleet.name,
            network=fleet.network,
            user=self._find_user(fleet, owner),
            ingest=Ingest(settings.ingest_url, settings.ingest_ca),
            usage_period_s=settings.usage_period_s,
            out=settings.storage.outputs(JobId(job_of(attempt)), number_of(attempt)),
            is_bare=self._is_bare(fleet.name),
        )

    def _is_bare(self, fleet: str) -> bool:
        return self._fleets[fleet].kind in self._settings.bare_kinds

    def _find_user(self, fleet: Fleet, owner: str) -> str | None:
        users = self._settings.submitters.get(fleet.kind)
        if users is None:
            uid, gid = self._settings.job_user
            return {None: f"{uid}:{gid}", IMAGE_USER: None}.get(fleet.user, fleet.user)
        if owner not in users:
            raise LaunchRefused(
                say("slurm.no_user", user=owner),
                why=say("slurm.no_user_why", fleet=fleet.name),
                next_step=say("slurm.no_user_next"),
            )
        return "{}:{}".format(*users[owner])

    def _older_checkpoints(self, attempt: AttemptId) -> Sequence[AttemptLayout]:
        """The older attempts that left some, newest first."""
        job, number = JobId(job_of(attempt)), number_of(attempt)
        older = [self._settings.storage.attempt_number(job, one) for one in range(number - 1, 0, -1)]
        return [one for one in older if not one.checkpoints.is_symlink() and _holds_something(one.checkpoints)]


def _holds_something(folder: Path) -> bool:
    if not folder.is_dir():
        return False
    with os.scandir(folder) as entries:
        return any(entries)
