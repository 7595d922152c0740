"""What a job reads, as its container sees it: checked once more when an attempt is assembled, mounted read-only."""

import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from starforge.contract.capsule import PLACE_WORK
from starforge.contract.ids import JobId
from starforge.contract.jobspec import JobSpec
from starforge.contract.launch import Mount
from starforge.errors import LaunchRefused, NodeFault
from starforge.recipes.adapters.inputs import InputPaths
from starforge.said.sentence import say
from starforge_console.assembly.layout import StorageLayout
from starforge_console.domain.inputs import (
    HUB_SCHEME,
    MODEL,
    START,
    TRAIN,
    VALIDATION,
    CheckpointInput,
    HubInput,
    InputFault,
    JobInput,
    JobInputs,
    PathInput,
    find_named,
)


@dataclass(frozen=True, slots=True)
class BoundInput:
    """What is mounted for an input, by its place in the container; `path` is where the container finds it.

    Nobody but the console or an administrator may be able to exchange a mounted folder: the engine follows a link in
    its place, as root, after the console has looked.
    """

    sources: Mapping[str, Path]
    path: str


def bind_inputs(storage: StorageLayout, inputs: JobInputs, *, is_bare: bool = False) -> dict[str, BoundInput]:
    """Where each input lies now, and where the job finds it; a bare one finds it where it lies. Waits for the disk.

    Raises:
        LaunchRefused: one cannot be had any more.
        NodeFault: nobody can tell now, or it has to be fetched first.

    """
    return {member: _bind(storage, one, is_bare) for member, one in inputs.items()}


def build_paths(spec: JobSpec, bound: Mapping[str, BoundInput]) -> InputPaths:
    """Where the container finds every input, those of the workspace among them. Pure.

    Raises:
        LaunchRefused: the job names something from outside that it was admitted without.

    """
    paths = {}
    for member, text in find_named(spec).items():
        if member not in bound and (member == START or text.startswith((HUB_SCHEME, "/"))):
            raise LaunchRefused(
                say("launch.input_unadmitted", member=member, text=repr(text)), next_step=say("launch.submit_again")
            )
        paths[member] = bound[member].path if member in bound else f"{PLACE_WORK}/{text}"
    return InputPaths(
        model=paths.get(MODEL), train=paths.get(TRAIN), validation=paths.get(VALIDATION), start=paths.get(START)
    )


def build_mounts(bound: Mapping[str, BoundInput]) -> tuple[Mount, ...]:
    """One read-only mount for each place in the container. Pure."""
    sources = {target: source for one in bound.values() for target, source in one.sources.items()}
    return tuple(Mount(str(source), target, read_only=True) for target, source in sources.items())


def find_real_path(given: PathInput) -> Path | InputFault:
    """Where the path leads, all links followed, or why no job may have it. Waits for the disk.

    Raises:
        NodeFault: the data root itself is not there, so that nothing below it is known.

    """
    try:
        root = Path(given.root).resolve(strict=True)
        if not root.is_dir():
            raise NotADirectoryError
    except (OSError, RuntimeError) as error:
        raise NodeFault(
            say("launch.no_data_root", root=given.root), why=str(error), next_step=say("launch.no_data_root_next")
        ) from error
    try:
        real = Path(given.path).resolve(strict=True)
    except FileNotFoundError:
        return InputFault(
            "input_not_there", say("input.not_there", path=given.path), next_step=say("input.not_there_next")
        )
    except (OSError, RuntimeError) as error:
        return InputFault("input_not_there", say("input.unreadable", path=given.path), str(error))
    if not real.is_relative_to(root):
        return InputFault(
            "input_outside",
            say("input.outside", path=given.path, root=given.root),
            say("input.outside_why", real=str(real)),
            say("input.outside_next"),
        )
    return real


def _bind(storage: StorageLayout, one: JobInput, is_bare: bool) -> BoundInput:  # noqa: FBT001 - a fact of the fleet
    match one:
        case HubInput():
            return _bind_hub(storage, one)
        case PathInput():
            return _bind_path(one)
        case CheckpointInput():
            return _bind_checkpoint(storage, one, is_bare)


def _bind_path(one: PathInput) -> BoundInput:
    """The whole root is mounted: who may write below it may exchange every folder but the root itself."""
    found = find_real_path(one)
    if isinstance(found, InputFault):
        raise LaunchRefused(found.what, why=found.why, next_step=found.next_step)
    root = Path(one.root).resolve()
    # Links below a root that is a link itself may name either of its two places.
    return BoundInput({one.root: root, str(root): root}, one.path)


def _bind_hub(storage: StorageLayout, one: HubInput) -> BoundInput:
    snapshot = None if one.commit is None else storage.hub_snapshot(one.ref.kind, one.ref.repo, one.commit)
    if snapshot is None or not snapshot.is_dir():
        raise NodeFault(say("launch.not_fetched", input=str(one.ref)), next_step=say("launch.not_fetched_next"))
    with contextlib.suppress(OSError):  # a cache that is only read can serve jobs all the same
        os.utime(snapshot)  # what was used last goes last when the cache is too large
    return BoundInput({str(snapshot): snapshot}, str(snapshot))


def _bind_checkpoint(storage: StorageLayout, one: CheckpointInput, is_bare: bool) -> BoundInput:  # noqa: FBT001 - the same
    layout = storage.attempt_number(JobId(one.job), one.attempt)
    folder = layout.checkpoints / one.folder
    # The other job may still run, and it owns what is in the folder that is mounted: a link that it lays there after
    # this look leads to something in the container alone.
    real = Path(os.path.realpath(storage.run(JobId(one.job)))) / folder.relative_to(storage.run(JobId(one.job)))
    if not folder.is_dir() or os.path.realpath(folder) != str(real):
        raise LaunchRefused(
            say("launch.no_step", step=one.step, job=one.job),
            why=say("launch.no_step_why", folder=str(folder)),
            next_step=say("launch.no_step_next"),
        )
    mount = layout.checkpoints if is_bare else layout.checkpoints_mount
    return BoundInput({str(mount): layout.checkpoints}, str(mount / one.folder))
