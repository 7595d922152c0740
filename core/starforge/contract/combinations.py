"""Combinations of hyperparameters: every choice of one value for each key, and the hyperparameters of one choice. Pure.

A key is the name of a hyperparameter; `a.b` is `b` in the map `a`, as `--set a.b=1` puts it.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Annotated, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, JsonValue

from starforge.contract.canonical import Json, canonical_json

COMBINATIONS_AT_MOST: Final = 200
KEYS_AT_MOST: Final = 16
PARTS_AT_MOST: Final = 32
"""So many names one key has with its dots: each is a map, and no document is read that is nested without end."""
_NAMED_AT_MOST: Final = 3


def check_key(key: str) -> str:
    """`key` as it is. Raises ValueError for one with an empty part, or with more than `PARTS_AT_MOST`."""
    parts = key.split(".")
    if len(parts) > PARTS_AT_MOST:
        message = f"{key[:100]!r} lies in {len(parts) - 1} maps, one inside the other: the most is {PARTS_AT_MOST - 1}"
        raise ValueError(message)
    if not all(parts):
        message = f"{key[:100]!r} is no name of a hyperparameter: one of its parts is empty"
        raise ValueError(message)
    return key


SweptKey = Annotated[str, AfterValidator(check_key)]


class SweepPart(BaseModel):
    """The sweep that a job belongs to, and the values that it was given there."""

    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)

    id: str
    name: str
    combination: dict[str, JsonValue]


def count_combinations(grid: Mapping[str, Sequence[Json]]) -> int:
    """How many combinations `grid` has, without making one."""
    count = 1
    for values in grid.values():
        count *= len(values)
    return count


def list_combinations(grid: Mapping[str, Sequence[Json]]) -> Iterator[dict[str, Json]]:
    """Every choice of one value for each key; the values of the last key change first."""
    for chosen in product(*grid.values()):
        yield dict(zip(grid, chosen, strict=True))


def find_inside(keys: Sequence[str]) -> tuple[str, str] | None:
    """A key that lies inside the map that another one replaces, and that one; None where there is none."""
    return next(((one, other) for one in keys for other in keys if one.startswith(f"{other}.")), None)


def put_values(hyperparameters: Mapping[str, Json], combination: Mapping[str, Json]) -> dict[str, Json]:
    """`hyperparameters` with the values of `combination` in their places.

    Raises:
        ValueError: a key goes below something that is no map.

    """
    put = dict(hyperparameters)
    for key, value in combination.items():
        *above, last = key.split(".")
        place = put
        for part in above:
            inner = place.get(part)
            if inner is not None and not isinstance(inner, dict):
                message = f"{key} cannot be set: {part} holds no map"
                raise ValueError(message)
            inner = place[part] = dict(inner or {})
            place = inner
        place[last] = value
    return put


def find_values(hyperparameters: Mapping[str, Json], keys: Sequence[str]) -> dict[str, Json]:
    """The values of `keys` in `hyperparameters`; a key that has none is left out."""
    found: dict[str, Json] = {}
    for key in keys:
        value: Json = dict(hyperparameters)
        for part in key.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        if value is not None:
            found[key] = value
    return found


def are_same(one: Json, other: Json) -> bool:
    """Whether two values are the same to a spec: 1 and true are not, nor are 1 and 1.0."""
    return canonical_json([one]) == canonical_json([other])


def describe_combination(combination: Mapping[str, Json]) -> str:
    """The combination in one line, such as `lr=0.1 batch=8`."""
    import json  # noqa: PLC0415 - told of few jobs, and read by every command

    shown = (
        (key, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
        for key, value in combination.items()
    )
    return " ".join(f"{key}={value}" for key, value in shown)


def describe_some(having: Sequence[Mapping[str, Json]], count: int) -> str:
    """Which of `count` combinations something is said of, the first ones by their values; empty where it is all."""
    if len(having) == count:
        return ""
    named = "; ".join(map(describe_combination, having[:_NAMED_AT_MOST]))
    more = f"; and {len(having) - _NAMED_AT_MOST} more" if len(having) > _NAMED_AT_MOST else ""
    return f"{len(having)} of {count} combinations: {named}{more}"
