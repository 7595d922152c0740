"""An experiment on disk becomes a job: read, checked, packed, sent. What is said meanwhile goes to a voice."""

import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

from starforge.client.console import Console
from starforge.client.upload import Sink, send_blob
from starforge.contract.api import AdmissionRecord, SubmitRequest
from starforge.contract.ids import Digest
from starforge.contract.jobspec import JobSpec, Resources
from starforge.contract.secrets import check_name
from starforge.errors import InputError, Unavailable
from starforge.hardware.profiles import Profile, build_resources
from starforge.workspace.config import Setting
from starforge.workspace.difference import load_difference
from starforge.workspace.experiment import Experiment, apply_resources, check_experiment, read_experiment
from starforge.workspace.git import GitStanding
from starforge.workspace.manifest import Manifest, load_manifest
from starforge.workspace.pack import check_manifest, pack_manifest
from starforge.workspace.project import load_project, resolve_experiment
from starforge.workspace.provenance import Origin, load_origin
from starforge.workspace.remember import find_memory_folder, pack_or_recall
from starforge.workspace.submission import Contents, build_jobspec, build_share, check_clean, check_data_travels

FindProfiles = Callable[[Sequence[str]], Mapping[str, Profile]]
"""Gives the profiles by name, for what was asked for as `NAME[:GPUS]`."""


class Voice(Protocol):
    """Whoever hears what happens on the way."""

    def warn(self, text: str) -> object:
        """Something that may be a mistake."""

    def note(self, text: str) -> object:
        """Something good to know."""

    def watch(self, doing: str, total_bytes: int) -> AbstractContextManager[Callable[..., object]]:
        """A piece of work; what it gives is told the bytes just done, or the bytes done and those in all."""


class Asked(NamedTuple):
    """What is wanted beside the experiment's own files. `may_be_dirty`: nobody is refused for it here."""

    profiles: tuple[str, ...]
    settings: Sequence[Setting]
    secrets: tuple[str, ...]
    allow_dirty: bool
    may_be_dirty: bool


@dataclass(frozen=True, slots=True)
class Prepared:
    """An experiment that can be sent."""

    experiment: Experiment
    manifest: Manifest
    contents: Contents
    request: SubmitRequest

    @property
    def spec(self) -> JobSpec:
        """What the job is to run."""
        return self.request.spec

    def write(self, sink: Sink) -> Digest:
        """Pack the workspace into `sink`; gives the digest of what was packed."""
        return pack_manifest(self.manifest, sink).digest


@dataclass(frozen=True, slots=True)
class Sent:
    """An admitted job. `uploaded`: the console did not have its workspace yet."""

    job: str
    record: AdmissionRecord
    uploaded: bool


def prepare(start: Path, name: str, asked: Asked, find_profiles: FindProfiles, voice: Voice) -> Prepared:
    """Read, check and pack the experiment `name` of the project that holds the folder `start`. Sends nothing.

    Raises:
        InputError: what has to be mended, file by file.
        Refused: the project differs from its commit, and that was not allowed.

    """
    project = load_project(start)
    experiment = read_experiment(project, resolve_experiment(project, name), asked.settings)
    resources = _choose_resources(experiment, asked.profiles, find_profiles)
    check_experiment(experiment)
    for warning in experiment.warnings:
        voice.warn(f"{warning.place}: {warning.message}")
    manifest = load_manifest(project.root)
    check_manifest(manifest, project.pack_limit_bytes)
    contents = _load_contents(manifest, voice, may_be_dirty=asked.may_be_dirty)
    check_data_travels(experiment, contents.packed)
    request = SubmitRequest(
        spec=build_jobspec(experiment, resources, contents, asked.secrets),
        allow_dirty=asked.allow_dirty,
        difference=load_difference(manifest, contents.origin) if asked.allow_dirty else None,
        config=experiment.values,
    )
    return Prepared(experiment, manifest, contents, request)


def send(console: Console, prepared: Prepared, voice: Voice) -> Sent:
    """Upload the workspace where it is not there yet, and submit. Raises StarForgeError as any call does."""
    packed = prepared.contents.packed
    with voice.watch("sending", packed.bytes) as progress:
        uploaded = send_blob(console, packed.digest, prepared.write, progress)
    sent = submit_request(console, prepared.request, voice)
    return Sent(sent.job, sent.record, uploaded)


def submit_request(console: Console, request: SubmitRequest, voice: Voice) -> Sent:
    """Submit under a key of its own, so that no repeat of the call makes a second job."""
    record = console.submit(request, f"sf-{secrets.token_hex(16)}")
    if record.job is None:
        raise Unavailable("the console admitted the job and named none", next_step="look at `sf job ls`")
    for warning in record.warnings:
        voice.warn(warning)
    return Sent(record.job, record, uploaded=False)


def check_secret_names(names: Sequence[str]) -> tuple[str, ...]:
    """Each name once. Raises InputError for one that no secret can have; shows nothing behind an equals sign."""
    for name in names:
        wanted, sign, _ = name.partition("=")
        if sign:
            raise InputError(
                "--secret takes the name of a secret and no value",
                why="arguments can be read by everybody on this machine",
                next_step=f"sf secret set {wanted}, then --secret {wanted}; if that was a real value, make a new one",
            )
        check_name(name)
    return tuple(dict.fromkeys(names))


def _choose_resources(experiment: Experiment, profiles: tuple[str, ...], find: FindProfiles) -> Resources:
    """The pools that were asked for; what breaks a rule about them is then among the experiment's faults."""
    roles = experiment.recipe.roles if experiment.recipe else ()
    try:
        resources = build_resources(profiles, find(profiles), roles, build_share(experiment))
    except InputError:
        check_experiment(experiment)  # its own faults come first
        raise
    apply_resources(experiment, resources)
    return resources


def _load_contents(manifest: Manifest, voice: Voice, *, may_be_dirty: bool) -> Contents:
    """The packed workspace and its origin. Packing takes its time: what is refused is refused before, if it can be."""
    if manifest.clone is None:
        origin = load_origin(manifest)
        check_clean(origin, allow_dirty=may_be_dirty)
        _tell_origin(origin, voice)
    with voice.watch("packing", manifest.content_bytes) as progress:
        packed = pack_or_recall(manifest, find_memory_folder(), progress)
    if manifest.clone is not None:
        origin = load_origin(manifest, packed)
        check_clean(origin, allow_dirty=may_be_dirty)
        _tell_origin(origin, voice)
    return Contents(packed=packed, origin=origin)


def _tell_origin(origin: Origin, voice: Voice) -> None:
    if origin.dirty:
        voice.warn(f"the project differs from its commit: {origin.name_dirty()}")
    if origin.clone is not None:
        voice.note(f"the files are those of {origin.clone.job}, and so is what is known of their origin")
    elif origin.standing is not GitStanding.REPOSITORY and origin.commit is None:
        voice.warn(f"the job will not know which commit it came from ({origin.standing.replace('_', ' ')})")
    for path in origin.line_ends_only:
        voice.warn(f"{path} differs from its commit in line ends alone; its bytes are sent as they are")
