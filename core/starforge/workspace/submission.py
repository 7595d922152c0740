"""From an experiment, its packed workspace and a choice of machines to the JobSpec."""

import os
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import ValidationError

from starforge.contract import jobspec
from starforge.contract.ids import Digest
from starforge.errors import ProjectError, SpecError
from starforge.hardware.profiles import Share
from starforge.recipes.lock import Lock
from starforge.recipes.model import Recipe
from starforge.workspace.datasets import is_elsewhere
from starforge.workspace.experiment import Experiment, build_metadata, build_settings, list_named_inputs
from starforge.workspace.git import GitStanding
from starforge.workspace.pack import Packed
from starforge.workspace.provenance import Origin, build_provenance


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """What travels with the job, and where it came from."""

    packed: Packed
    origin: Origin


def build_jobspec(
    experiment: Experiment, resources: jobspec.Resources, contents: Contents, secrets: Sequence[str] = ()
) -> jobspec.JobSpec:
    """The JobSpec of an experiment without faults; `secrets` are names that the submitter has set. Pure.

    Raises:
        SpecError: a setting that the contract refuses.

    """
    recipe, lock = experiment.recipe, experiment.lock
    if recipe is None or lock is None or experiment.image is None:
        raise ProjectError(f"{experiment.name} has faults", next_step=f"sf validate {experiment.name}")
    try:
        spec = {**_build_spec(experiment, (recipe, lock), resources, contents), "secrets": tuple(secrets)}
        return jobspec.JobSpec(metadata=build_metadata(experiment), spec=jobspec.Spec.model_validate(spec))
    except ValidationError as error:
        why = jobspec.describe_faults(error)
        raise SpecError(
            f"{experiment.name} makes no JobSpec", why=why, next_step="mend the fields that are named"
        ) from error


def check_clean(origin: Origin, *, allow_dirty: bool) -> None:
    """Refuse a tree that is not what its commit holds, unless that is allowed.

    Raises:
        ProjectError: it is dirty; names the files.

    """
    if allow_dirty or not origin.dirty:
        return
    is_repository = origin.standing is GitStanding.REPOSITORY
    commit = "commit them" if is_repository else "make the folder a repository of its own and commit them"
    raise ProjectError(
        "the project differs from its commit" if origin.commit else "the project has no commit yet",
        why=f"changed or new: {origin.name_dirty()}",
        next_step=f"{commit}, or add --allow-dirty to send exactly these bytes",
    )


def check_data_travels(experiment: Experiment, packed: Packed) -> None:
    """Refuse a model or data of the workspace that is on disk and not among what was packed.

    Raises:
        ProjectError: a rule leaves it out.

    """
    for key, value in list_named_inputs(experiment):
        if is_elsewhere(value):
            continue
        path = os.path.normpath(value)
        if path == "." or any(file.path == path or file.path.startswith(f"{path}/") for file in packed.files):
            continue
        raise ProjectError(
            f"{key} is {value}, which does not travel with the job",
            why="it holds no file, or .gitignore or .sfignore leaves it out",
            next_step="`sf pack` lists what travels; keep it with a line !PATH, or name data on the machines",
        )


def build_share(experiment: Experiment) -> Share:
    """What the config asks of each node beside GPUs."""
    resources = experiment.section("resources")
    cpus, memory_gib = resources.get("cpus"), resources.get("memory_gib")
    return Share(
        cpus=float(cpus) if isinstance(cpus, int | float) else None,
        memory_bytes=int(memory_gib * (1 << 30)) if isinstance(memory_gib, int | float) else None,
    )


def _build_spec(
    experiment: Experiment, method: tuple[Recipe, Lock], resources: jobspec.Resources, contents: Contents
) -> dict[str, object]:
    recipe, lock = method
    packed = contents.packed
    return {
        "recipe": {"name": lock.recipe.name, "version": lock.recipe.version, "digest": lock.recipe.digest},
        "framework": {
            "kind": lock.framework.kind,
            "version": lock.framework.version,
            "image": experiment.image,
        },
        "resources": resources,
        "entry": {"kind": recipe.entry.kind, "value": experiment.folder},
        "workspace": {"digest": packed.digest, "bytes": packed.bytes, "files": len(packed.files)},
        "provenance": build_provenance(contents.origin, Digest(experiment.config_digest)),
        **build_settings(experiment),
    }
