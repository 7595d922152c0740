"""Several runs side by side: their curves in constant size, and their settings with what differs."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query
from pydantic import JsonValue, StringConstraints
from starlette.responses import Response

from starforge.contract.comparing import (
    CURVES_AT_MOST,
    KEYS_AT_MOST,
    POINTS_AT_MOST,
    RUNS_AT_MOST,
    ComparedCurve,
    ComparedSetting,
    Comparison,
    PrimaryView,
)
from starforge.contract.curves import sort_keys
from starforge.contract.jobspec import JobSpec
from starforge.contract.results import Curve
from starforge.errors import InputError, NotFound
from starforge.recipes.model import PrimaryMetric
from starforge.said.sentence import say
from starforge_console.ledger.listing import JobLine, load_lines
from starforge_console.ledger.points import KeyCount, count_common_keys, search_common_keys
from starforge_console.ledger.views import load_specs
from starforge_console.web.deps import ApiServices, Reader, Services
from starforge_console.web.primary_metric import find_primary_metric
from starforge_console.web.problems import problem_responses
from starforge_console.web.steps import add_steps
from starforge_console.web.views import build_job

DEFAULT_POINTS: Final = 500
KEY_CHARACTERS: Final = 256
DEPTH: Final = 4
"""So deep settings are told apart by their names; what lies deeper is one value."""

router = APIRouter(tags=["series"])

JobIds = Annotated[
    list[Annotated[str, StringConstraints(max_length=40)]], Query(alias="job", min_length=1, max_length=RUNS_AT_MOST)
]
Keys = Annotated[
    list[Annotated[str, StringConstraints(max_length=KEY_CHARACTERS)]], Query(alias="key", max_length=KEYS_AT_MOST)
]


@router.get("/compare", response_model=Comparison, responses=problem_responses(401, 403, 404))
async def compare_runs(
    services: Services,
    _account: Reader,
    jobs: JobIds,
    keys: Keys = [],  # noqa: B006 - read only
    points: Annotated[int, Query(ge=2, le=POINTS_AT_MOST)] = DEFAULT_POINTS,
) -> Response:
    """Runs side by side: the curves of some metrics in about so many points each, and all settings.

    `job` and `key` are given once for each; without a key, the metric is chosen that says most of all the runs.
    """
    comparison = await load_comparison(services, jobs, keys, points)
    return Response(comparison.model_dump_json(), media_type="application/json")


async def load_comparison(services: ApiServices, jobs: Sequence[str], keys: Sequence[str], points: int) -> Comparison:
    """The runs in the order of `jobs`. Raises NotFound for one that does not exist, InputError for too many curves."""
    runs = await load_runs(services, jobs)
    primary = await find_shared_primary(services, runs)
    chosen = list(dict.fromkeys(keys)) or await _choose_keys(services, runs, primary)
    ids = [run.line.job.id for run in runs]
    if len(ids) * len(chosen) > CURVES_AT_MOST:
        raise InputError(
            say("form.many_curves", runs=len(ids), metrics=len(chosen), curves=len(ids) * len(chosen)),
            why=say("form.many_curves_why", most=CURVES_AT_MOST),
            next_step=say("form.many_curves_next"),
        )
    found = await services.curves.curves([(job, key) for key in chosen for job in ids], points)
    return Comparison.model_construct(
        runs=tuple(build_job(run.line) for run in runs),
        keys=tuple(chosen),
        key_count=await services.series.read(lambda c: count_common_keys(c, ids)),
        primary=None if primary is None else PrimaryView(key=primary.key, better=primary.better),
        curves=tuple(build_compared(job, curve) for (job, _), curve in found.items()),
        settings=build_settings([run.spec for run in runs]),
    )


@dataclass(frozen=True, slots=True)
class Run:
    """One of the runs that are compared."""

    line: JobLine
    spec: JobSpec


async def load_runs(services: ApiServices, jobs: Sequence[str]) -> list[Run]:
    """The runs in the order of `jobs`, each once. Raises NotFound."""
    ids = list(dict.fromkeys(jobs))
    lines, specs = await services.ledger.read(lambda c: (load_lines(c, ids), load_specs(c, ids)))
    missing = [one for one in ids if one not in lines]
    if missing:
        raise NotFound(
            say("form.no_jobs", jobs=", ".join(missing)[:400]),
            why=say("form.no_jobs_why"),
            next_step=say("form.no_jobs_next"),
        )
    shown = await add_steps(services.series, [lines[one] for one in ids])
    return [Run(line, JobSpec.model_validate_json(specs[line.job.id])) for line in shown]


async def find_shared_primary(services: ApiServices, runs: Iterable[Run]) -> PrimaryMetric | None:
    """The primary metric of the runs' methods; None where they do not share one."""
    found = [await find_primary_metric(services.catalog, method) for method in {run.line.recipe for run in runs}]
    return found[0] if found and all(one == found[0] for one in found) else None


async def list_common_keys(
    services: ApiServices, jobs: Sequence[str], text: str = "", limit: int = 10_000
) -> list[KeyCount]:
    """The metrics that any of the jobs has reported, those that most have first; `points` says how many have one."""
    return await services.series.read(lambda c: search_common_keys(c, jobs, text, limit))


def build_compared(job: str, curve: Curve) -> ComparedCurve:
    """A curve with its extremes, which are among the points of every drawn curve."""
    low = high = low_step = high_step = None
    # Most curves have no odd value: looking for one costs less than looking at each.
    is_odd = str in set(map(type, curve.values))
    numbers = [value for value in curve.values if not isinstance(value, str)] if is_odd else curve.values
    if numbers:
        low, high = min(numbers), max(numbers)
        low_step, high_step = (curve.steps[curve.values.index(value)] for value in (low, high))
    return ComparedCurve.model_construct(
        job=job,
        key=curve.key,
        steps=curve.steps,
        values=curve.values,
        times=curve.times,
        total_points=curve.total_points,
        last=curve.values[-1],
        low=low,
        low_step=low_step,
        high=high,
        high_step=high_step,
    )


def build_settings(specs: Sequence[JobSpec]) -> tuple[ComparedSetting, ...]:
    """All settings of the runs by name, those that differ marked."""
    tables = [_list_settings(spec) for spec in specs]
    names = dict.fromkeys(name for table in tables for name in table)
    settings = []
    for name in names:
        values = tuple(table.get(name) for table in tables)
        # As texts: True and 1 are equal in Python, and no setting is to be taken for another one.
        differs = len({repr(value) for value in values}) > 1
        settings.append(ComparedSetting(name=name, values=values, differs=differs))
    return tuple(settings)


async def _choose_keys(services: ApiServices, runs: Sequence[Run], primary: PrimaryMetric | None) -> list[str]:
    counts = {one.key: one.points for one in await list_common_keys(services, [run.line.job.id for run in runs])}
    shared = {key: 2 for key, count in counts.items() if count == len(runs)} or dict.fromkeys(counts, 2)
    return sort_keys(shared, None if primary is None else primary.key)[:1]


def _list_settings(spec: JobSpec) -> dict[str, JsonValue]:
    one = spec.spec
    gpus = {pool.name: f"{pool.series or 'any'}:{pool.nodes * pool.gpus_per_node}" for pool in one.resources.pools}
    told: dict[str, Any] = {
        "recipe": f"{one.recipe.name} {one.recipe.version}",
        "image": one.framework.image,
        "entry": one.entry.value,
        "model": one.model,
        "data.train": one.data.train,
        "data.validation": one.data.validation,
        "init_from": one.init_from,
        "gpus": next(iter(gpus.values())) if len(gpus) == 1 else ", ".join(f"{n} {v}" for n, v in gpus.items()),
        "commit": one.provenance.commit,
        "workspace": one.workspace.digest,
    }
    settings: dict[str, JsonValue] = dict(_flatten("", one.hyperparameters, DEPTH))
    return settings | {name: value for name, value in told.items() if value is not None}


def _flatten(prefix: str, values: Mapping[str, JsonValue], depth: int) -> Iterable[tuple[str, JsonValue]]:
    for name, value in values.items():
        if isinstance(value, dict) and value and depth > 1:
            yield from _flatten(f"{prefix}{name}.", value, depth - 1)
        else:
            yield f"{prefix}{name}", value
