"""Moves a lock to another version of its method: what would change, decided before anything is written."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from starforge.contract.canonical import Json
from starforge.contract.versions import parse_release
from starforge.errors import ProjectError
from starforge.recipes.lock import Lock, LockedParameter, build_lock
from starforge.recipes.model import Recipe, Runtime
from starforge.wording import describe_nearest, join_sentences


class Change(NamedTuple):
    """One fact about the method before and after; None where there was or is none."""

    what: str
    before: str | None
    after: str | None


class Rebound(NamedTuple):
    """A parameter that stands elsewhere in the framework's configuration, or takes another type."""

    name: str
    before: LockedParameter
    after: LockedParameter


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """What an upgrade changes. `touched` are the names of those parameters that the experiment itself sets."""

    changes: tuple[Change, ...]
    gone: tuple[str, ...]
    new: tuple[str, ...]
    rebound: tuple[Rebound, ...]
    touched: tuple[str, ...]

    @property
    def is_empty(self) -> bool:
        """Whether the lock is already what the upgrade would make of it."""
        return not (self.changes or self.gone or self.new or self.rebound)

    def to_json(self) -> dict[str, Json]:
        """The difference as `sf recipe upgrade --json` prints it."""
        rebound: list[Json] = [
            {"name": one.name, "before": one.before.model_dump(), "after": one.after.model_dump()}
            for one in self.rebound
        ]
        return {
            "changes": [{"what": one.what, "before": one.before, "after": one.after} for one in self.changes],
            "parameters": {"gone": list(self.gone), "new": list(self.new), "changed": rebound},
            "touched": list(self.touched),
        }


def choose_runtime(recipe: Recipe, asked: str | None, held: str | None) -> Runtime:
    """The runtime to move to: the version that was asked for, else the one that the lock holds. Pure.

    Raises:
        ProjectError: the method does not run on it, or no longer does and nothing else was asked for; names what it
            offers.

    """
    if asked is None and len(recipe.runtimes) == 1:
        return recipe.runtimes[0]
    wanted = asked if asked is not None else held
    found = recipe.find_version(wanted) or (recipe.find_runtime(asked) if asked else None)
    if found is not None:
        return found
    offered = recipe.framework_versions
    next_step = f"add --to-version with one of {', '.join(offered)}"
    if asked is not None:
        next_step = join_sentences(describe_nearest_version(asked, offered), f"it offers {', '.join(offered)}")
    what = f"{recipe.name} does not run on {recipe.framework} {wanted}"
    raise ProjectError(what if asked is not None else f"{what} any more", next_step=next_step)


def describe_nearest_version(asked: str, offered: tuple[str, ...]) -> str:
    """`did you mean '1.16.0'?` for the version that is nearest in value, else in writing; nothing without any."""
    if not offered:
        return "it takes no version"
    try:
        release = parse_release(asked)
    except ValueError:
        return describe_nearest(asked, offered)
    nearest = min(offered, key=lambda one: _distance(release, parse_release(one)))
    return f"did you mean {nearest!r}?"


def find_newer(recipe: Recipe, held: str | None) -> str | None:
    """The newest version of the framework that `recipe` runs on, where it is newer than `held`. Pure."""
    offered = recipe.framework_versions
    if not offered or held not in offered or held == offered[0]:
        return None
    return offered[0]


def build_upgrade(
    recipe: Recipe, runtime: Runtime, before: Lock | None, hyperparameters: Mapping[str, Json]
) -> tuple[Lock, Difference]:
    """The lock of `recipe` on `runtime`, and how it differs from `before` (None: unreadable). Pure."""
    after = build_lock(recipe, runtime)
    was = before.bindings.parameters if before else {}
    now = after.bindings.parameters
    gone = tuple(name for name in was if name not in now)
    rebound = tuple(Rebound(name, was[name], now[name]) for name in was if name in now and was[name] != now[name])
    names = [*gone, *(one.name for one in rebound)]
    difference = Difference(
        changes=tuple(_list_changes(before, after)),
        gone=gone,
        new=tuple(name for name in now if name not in was) if before else (),
        rebound=rebound,
        touched=tuple(sorted(name for name in names if is_set(hyperparameters, name))),
    )
    return after, difference


def is_set(values: Mapping[str, Json], name: str) -> bool:
    """Whether `values` hold the dotted `name`, written as one key or as keys below one another. Pure."""
    if name in values:
        return True
    parts = name.split(".")
    for end in range(1, len(parts)):
        inner = values.get(".".join(parts[:end]))
        if isinstance(inner, dict) and is_set(inner, ".".join(parts[end:])):
            return True
    return False


def _list_changes(before: Lock | None, after: Lock) -> list[Change]:
    then, now = _list_facts(before) if before else {}, _list_facts(after)
    return [Change(what, then.get(what), value) for what, value in now.items() if then.get(what) != value]


def _list_facts(lock: Lock) -> dict[str, str | None]:
    return {
        "recipe version": lock.recipe.version,
        "manifest digest": lock.recipe.manifest_digest,
        "template digest": lock.recipe.template_digest,
        "framework version": lock.framework.version,
        "runtime": lock.framework.runtime,
        "entry": f"{lock.bindings.entry_kind} {lock.bindings.entry_value}",
        "oldest StarForge": lock.requires.core,
    }


def _distance(left: tuple[int, ...], right: tuple[int, ...]) -> tuple[int, ...]:
    width = max(len(left), len(right))
    padded = (part + (0,) * (width - len(part)) for part in (left, right))
    return tuple(abs(one - other) for one, other in zip(*padded, strict=True))
