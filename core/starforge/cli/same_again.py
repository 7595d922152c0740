"""The one command that submits a cloned workspace so that the JobSpec is the very same."""

import contextlib
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from starforge.contract.api import JobDetail
from starforge.contract.canonical import Json
from starforge.contract.jobspec import Pool, Resources, digest_of
from starforge.errors import InputError, StarForgeError
from starforge.hardware.profiles import BUILT_IN, Profile, Share, build_resources
from starforge.logtext import clean_line
from starforge.workspace.config import parse_setting
from starforge.workspace.experiment import Experiment, apply_resources, check_experiment, read_experiment
from starforge.workspace.project import Project
from starforge.workspace.submission import Contents, build_jobspec, build_share

_TRIED: Final = 500


@dataclass(frozen=True, slots=True)
class Command:
    """The words of the command. `why` says what stands against the same digest; it is empty where that is the same."""

    words: tuple[str, ...]
    why: str = ""


def find_command(project: Project, detail: JobDetail, registry: Mapping[str, Profile], contents: Contents) -> Command:
    """How to submit the job's experiment from its clone in `project`; checked by building the spec. Asks no network."""
    name, spec = detail.spec.metadata.name, detail.spec.spec
    settings, why = _find_settings(read_experiment(project, name), detail.lineage.config)
    experiment = read_experiment(project, name, [parse_setting(text) for text in settings])
    roles = experiment.recipe.roles if experiment.recipe else ()
    profiles = find_profiles(spec.resources, registry, roles, build_share(experiment))
    words = ["sf", "submit", name]
    for profile in profiles or _guess_profiles(spec.resources, registry):
        words += ["--profile", profile]
    for text in settings:
        words += ["--set", text]
    for secret in spec.secrets:
        words += ["--secret", secret]
    words += ["--allow-dirty"] if spec.provenance.dirty else []
    if profiles is None:
        return Command(tuple(words), "no profile of today asks for what the job asked for")
    return Command(tuple(words), why or _find_obstacle(experiment, profiles, (detail, registry, contents)))


def find_profiles(
    resources: Resources, registry: Mapping[str, Profile], roles: Sequence[str], share: Share
) -> list[str] | None:
    """What `--profile` takes to ask for exactly `resources`, of several ways the first by name. Pure."""
    choices = [list(_list_texts(pool, resources, registry)) for pool in resources.pools]
    for texts in itertools.islice(itertools.product(*choices), _TRIED):
        with contextlib.suppress(InputError):
            if build_resources(texts, registry, roles, share) == resources:
                return list(texts)
    return None


def _find_obstacle(
    experiment: Experiment, profiles: list[str], known: tuple[JobDetail, Mapping[str, Profile], Contents]
) -> str:
    """Why the spec would be another one; empty where it is the same."""
    detail, registry, contents = known
    try:
        roles = experiment.recipe.roles if experiment.recipe else ()
        resources = build_resources(profiles, registry, roles, build_share(experiment))
        apply_resources(experiment, resources)
        check_experiment(experiment)
        digest = digest_of(build_jobspec(experiment, resources, contents, detail.spec.spec.secrets))
    except StarForgeError as error:
        return str(error)
    if digest == detail.spec_digest:
        return ""
    if detail.lineage.config is None:
        return "the job's resolved settings were not kept, and those of its files make another spec"
    return f"it makes the spec {digest}, with this version of sf"


def _find_settings(experiment: Experiment, wanted: Mapping[str, Json] | None) -> tuple[list[str], str]:
    """What `--set` puts above the config's settings so that they are `wanted`; else why that cannot be."""
    if wanted is None:
        return [], ""
    found = _find_changes(experiment.values, wanted, ())
    if found is None:
        return [], "the config holds settings that the job had not, and no option takes one away"
    return [f"{'.'.join(path)}={_write_value(value)}" for path, value in found], ""


def _write_value(value: Json) -> str:
    """The value as YAML reads it and a terminal may show it: the job may be anybody's."""
    text = json.dumps(value, ensure_ascii=False)
    return "".join(sign if clean_line(sign) == sign else f"\\u{ord(sign):04x}" for sign in text)


def _find_changes(
    have: Mapping[str, Json], wanted: Mapping[str, Json], path: tuple[str, ...]
) -> list[tuple[tuple[str, ...], Json]] | None:
    """The smallest values to set, None where only setting the whole of `wanted` would do."""
    if set(have) - set(wanted):
        return None
    changes: list[tuple[tuple[str, ...], Json]] = []
    for key, value in wanted.items():
        if key in have and _is_same(have[key], value):
            continue
        if not key or key != key.strip() or set(key) & set(".=") or clean_line(key) != key:
            return None  # an option would read it as another path, or a terminal as a command
        below, here = have.get(key), (*path, key)
        inner = _find_changes(below, value, here) if isinstance(below, dict) and isinstance(value, dict) else None
        changes += [(here, value)] if inner is None else inner
    return changes


def _is_same(one: Json, other: Json) -> bool:
    """Whether both are written alike: 1 and 1.0 are not."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _guess_profiles(resources: Resources, registry: Mapping[str, Profile]) -> list[str]:
    """What comes nearest to `resources`."""
    return [next(_list_texts(pool, resources, registry), pool.series or "any") for pool in resources.pools]


def _list_texts(pool: Pool, resources: Resources, registry: Mapping[str, Profile]) -> Iterator[str]:
    gpus = pool.nodes * pool.gpus_per_node
    roles = [role for role, name in resources.roles.items() if name == pool.name]
    prefix = f"{','.join(roles)}=" if pool.name != "main" and roles else ""
    known = {**registry, **BUILT_IN}
    # The profile that is named as its series first: it is what a person would write.
    for name in sorted(known, key=lambda name: (name != pool.series, name)):
        profile = known[name]
        if profile.series == pool.series and bool(profile.gpus_per_node) == bool(gpus):
            yield f"{prefix}{name}" if profile.gpus == gpus else f"{prefix}{name}:{gpus}"
