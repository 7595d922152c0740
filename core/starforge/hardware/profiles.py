"""`--profile [ROLES=]NAME[:GPUS]` to the pools of a JobSpec."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple

from starforge.contract.jobspec import Pool, Resources
from starforge.errors import InputError
from starforge.wording import describe_nearest


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A named shape. `gpus` is taken when no number is named; `gpus_per_node` is a whole node, 0 without GPUs."""

    name: str
    series: str | None
    gpus: int
    gpus_per_node: int
    cpus: float | None = None
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What a job asks of each node beside GPUs; None takes the profile's, then the machine's default share."""

    cpus: float | None = None
    memory_bytes: int | None = None


BUILT_IN: Final[Mapping[str, Profile]] = MappingProxyType(
    {
        "cpu": Profile(name="cpu", series=None, gpus=0, gpus_per_node=0),
        "any": Profile(name="any", series=None, gpus=1, gpus_per_node=64),
    }
)
"""Profiles that every installation has; a registry cannot change them."""


class _Wish(NamedTuple):
    text: str
    roles: tuple[str, ...]
    profile: Profile
    gpus: int


def build_resources(
    texts: Sequence[str], registry: Mapping[str, Profile], roles: Sequence[str], share: Share = Share()
) -> Resources:
    """The pools that `texts` ask for. Pure.

    One text without roles is one pool that all roles share. Otherwise each text names its roles, and together they
    name every role of the recipe once.

    Raises:
        InputError: a profile or role that does not exist, a count that does not fit whole nodes, a role without a pool.

    """
    if not texts:
        raise InputError("no profile was named", next_step="add --profile NAME[:GPUS], for instance --profile cpu")
    wishes = [_parse_wish(text, registry, roles) for text in texts]
    _check_roles(wishes, roles)
    pools, named = [], {}
    for wish in wishes:
        name = "main" if not wish.roles else "-".join(wish.roles)
        pools.append(_build_pool(name, wish, share))
        named.update(dict.fromkeys(wish.roles or roles, name))
    return Resources(pools=tuple(pools), roles=named)


def name_wanted(text: str) -> str:
    """The name of the profile in `[ROLES=]NAME[:GPUS]`."""
    return text.rpartition("=")[2].partition(":")[0]


def _parse_wish(text: str, registry: Mapping[str, Profile], roles: Sequence[str]) -> _Wish:
    left, equals, right = text.rpartition("=")
    named_roles = tuple(role.strip() for role in left.split(",")) if equals else ()
    for role in named_roles:
        if role not in roles:
            hint = describe_nearest(role, roles)
            raise InputError(f"--profile {text}: the method has no role {role!r}", next_step=hint)
    name, colon, count = right.partition(":")
    profile = _find_profile(name, registry, text)
    if not colon:
        return _Wish(text, named_roles, profile, profile.gpus)
    if not (count.isascii() and count.isdigit() and int(count) > 0):
        raise InputError(f"--profile {text}: {count!r} is no count of GPUs", next_step=f"for instance {name}:4")
    return _Wish(text, named_roles, profile, int(count))


def _find_profile(name: str, registry: Mapping[str, Profile], text: str) -> Profile:
    known = {**registry, **BUILT_IN}
    if name in known:
        return known[name]
    hint = describe_nearest(name, known)
    why = "" if registry else "only the built-in profiles are known before `sf login`"
    raise InputError(f"--profile {text}: there is no profile {name!r}", why=why, next_step=hint)


def _check_roles(wishes: Sequence[_Wish], roles: Sequence[str]) -> None:
    if len(wishes) == 1 and not wishes[0].roles:
        return
    bare = [wish.text for wish in wishes if not wish.roles]
    if bare:
        next_step = f"write ROLES=NAME, with the roles {', '.join(roles)}"
        raise InputError(f"--profile {bare[0]} does not say for which roles it is", next_step=next_step)
    named = [role for wish in wishes for role in wish.roles]
    twice = sorted({role for role in named if named.count(role) > 1})
    if twice:
        raise InputError(f"role {twice[0]!r} is given two profiles", next_step="name it once")
    missing = [role for role in roles if role not in named]
    if missing:
        raise InputError(f"no profile is named for {', '.join(missing)}", next_step=f"add {missing[0]}=NAME[:GPUS]")


def _build_pool(name: str, wish: _Wish, share: Share) -> Pool:
    profile, whole = wish.profile, wish.profile.gpus_per_node
    if wish.gpus > 0 and whole == 0:
        raise InputError(f"--profile {wish.text}: {profile.name} has no GPUs", next_step=f"write {profile.name}")
    nodes, per_node = 1, wish.gpus
    if whole and wish.gpus > whole:
        if wish.gpus % whole:
            why = f"more than one node means whole nodes, and one holds {whole}"
            below, above = wish.gpus // whole * whole, (wish.gpus // whole + 1) * whole
            raise InputError(
                f"--profile {wish.text}: {wish.gpus} GPUs are no whole number of nodes",
                why=why,
                next_step=f"ask for {profile.name}:{below} or {profile.name}:{above}",
            )
        nodes, per_node = wish.gpus // whole, whole
    return Pool(
        name=name,
        series=profile.series,
        nodes=nodes,
        gpus_per_node=per_node,
        cpus=share.cpus if share.cpus is not None else profile.cpus,
        memory_bytes=share.memory_bytes if share.memory_bytes is not None else profile.memory_bytes,
    )
