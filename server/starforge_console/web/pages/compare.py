"""The page of several runs side by side, the points of its curves, and the way to it from the list of jobs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Final
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request
from pydantic import StringConstraints
from starlette.responses import RedirectResponse, Response

from starforge.contract.api import JobView
from starforge.contract.combinations import describe_combination
from starforge.contract.comparing import (
    KEYS_AT_MOST,
    RUNS_AT_MOST,
    ComparedCurve,
    ComparedSetting,
    Comparison,
    PrimaryView,
)
from starforge.contract.results import Curve
from starforge.contract.states import has_ended_for_good
from starforge_console.domain.drawing import Look
from starforge_console.web.compare import list_common_keys, load_comparison
from starforge_console.web.deps import Services
from starforge_console.web.pages.curves import FirstSteps, LastSteps, as_columns, build_windows, send_columns
from starforge_console.web.pages.figures import POINTS_AT_FIRST, Figure, Stroke, build_figure, choose_stroke
from starforge_console.web.pages.services import Pages
from starforge_console.web.pages.sweeps import load_shown
from starforge_console.web.pages.visit import Signed, load_form, safe_path, text_of

POINTS: Final = 500
POINTS_TOGETHER: Final = 80_000
POINTS_AT_LEAST: Final = 200
"""Of many runs on one another fewer points of each are drawn; zooming asks for more of what is looked at."""
FIGURES_AT_MOST: Final = 8
"""So many metrics are drawn on one page: 50 runs in each are its 400 curves."""
BOXES_AT_MOST: Final = 200

router = APIRouter(include_in_schema=False)

JobIds = Annotated[list[Annotated[str, StringConstraints(max_length=40)]], Query(alias="job", max_length=1000)]
Keys = Annotated[list[Annotated[str, StringConstraints(max_length=256)]], Query(alias="key", max_length=KEYS_AT_MOST)]


@dataclass(frozen=True, slots=True)
class Side:
    """One run as a row of the legend: its stroke, and the values of the metric that is shown first."""

    id: str
    name: str
    stroke: Stroke
    curve: ComparedCurve | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What the address of a comparison asks for. `only` shows the settings that differ alone."""

    jobs: Sequence[str]
    keys: Sequence[str]
    only: bool
    text: str
    sweep: str = ""

    @property
    def asked(self) -> list[tuple[str, str]]:
        """What names the runs: a sweep, or each of them."""
        return [("sweep", self.sweep)] if self.sweep else [("job", job) for job in self.jobs]

    def url(self, *, without: str = "", only: bool | None = None) -> str:
        """The address with one run less, or with the other settings."""
        runs = [("job", job) for job in self.jobs if job != without] if without else self.asked
        asked = [*runs, *(("key", key) for key in self.keys)]
        shows = self.only if only is None else only
        asked += [("all", "1")] if not shows else []
        return f"/compare?{urlencode(asked)}"


@router.get("/compare")
async def show_comparison(  # noqa: PLR0913 - one parameter a choice of the reader
    pages: Pages,
    services: Services,
    visit: Signed,
    *,
    jobs: JobIds = [],  # noqa: B006 - read only
    keys: Keys = [],  # noqa: B006 - read only
    metric: Annotated[str, Query(max_length=200)] = "",
    every: Annotated[str, Query(alias="all", max_length=1)] = "",
    sweep: Annotated[str, Query(max_length=40)] = "",
    done: Annotated[str, Query(max_length=20)] = "",
) -> Response:
    """The runs of the address, or of a sweep, side by side; without two of them, how to choose some."""
    swept = await load_shown(services, visit, sweep) if sweep else None
    ids = list(dict.fromkeys(jobs)) if swept is None else list(swept.jobs)
    if not 1 <= len(ids) <= RUNS_AT_MOST:
        return pages.look.page(visit, "compare_few.html", nav="jobs", chosen=len(ids), most=RUNS_AT_MOST)
    chosen = list(dict.fromkeys(keys))[:FIGURES_AT_MOST]
    drawn = chosen or (swept.first_key if swept else [])
    comparison = await load_comparison(services, ids, drawn, POINTS_AT_FIRST)
    wanted = Wanted(jobs=ids, keys=chosen, only=not every and len(ids) > 1, text=metric.strip(), sweep=sweep)
    found = await list_common_keys(services, ids, wanted.text, BOXES_AT_MOST)
    return pages.look.page(
        visit,
        "compare.html",
        nav="jobs",
        wanted=wanted,
        swept=swept,
        done="done.sweep_stopped" if swept is not None and done == "stopped" else "",
        comparison=comparison,
        sides=_build_sides(comparison, swept=swept is not None),
        figures=_build_figures(comparison, swept=swept is not None),
        boxes=found,
        settings=[one for one in comparison.settings if one.differs or not wanted.only],
        differing=_count_differing(comparison.settings),
        best=_find_best(comparison),
        running=any(not has_ended_for_good(run.state, run.retry_at) for run in comparison.runs),
    )


@router.get("/compare/curves")
async def send_compared(
    services: Services,
    _visit: Signed,
    *,
    jobs: JobIds,
    keys: Keys,
    first: FirstSteps = [],  # noqa: B006 - read only
    last: LastSteps = [],  # noqa: B006 - read only
) -> Response:
    """The points of some metrics of the runs, for the page's script: metric -> run -> columns.

    With steps, one pair for each run, of these parts of them.
    """
    windows = build_windows(len(jobs), first, last)
    asked = list(zip(jobs, windows, strict=True))[:RUNS_AT_MOST]
    chosen = keys[:FIGURES_AT_MOST]
    points = min(POINTS, max(POINTS_AT_LEAST, POINTS_TOGETHER // max(1, len(asked) * len(chosen))))
    looks = {(job, key): Look(points, window=window) for key in chosen for job, window in asked}
    answer: dict[str, dict[str, object]] = {}
    for (job, key), curve in (await services.curves.look(looks)).items():
        answer.setdefault(key, {})[job] = as_columns(curve)
    return send_columns(answer)


@router.post("/jobs/compare")
async def choose_runs(visit: Signed, request: Request) -> Response:
    """From the ticked rows of the list to the address of their comparison."""
    form = await load_form(request, visit)
    ids = list(dict.fromkeys(one for one in form.getlist("job") if isinstance(one, str)))
    back = safe_path(text_of(form, "back", 2000))
    target = f"/compare?{urlencode([('job', one[:40]) for one in ids])}" if ids else back
    return RedirectResponse(target, 303, {"Cache-Control": "no-store"})


def _build_sides(comparison: Comparison, *, swept: bool) -> list[Side]:
    first = comparison.keys[0] if comparison.keys else None
    of_first = {curve.job: curve for curve in comparison.curves if curve.key == first}
    return [
        Side(run.id, _name(run, swept=swept), choose_stroke(index), of_first.get(run.id))
        for index, run in enumerate(comparison.runs)
    ]


def _build_figures(comparison: Comparison, *, swept: bool) -> list[tuple[str, Figure | None]]:
    """Each metric with the picture of its curves, every run in its own stroke on all of them."""
    order = {run.id: index for index, run in enumerate(comparison.runs)}
    names = {run.id: _name(run, swept=swept) for run in comparison.runs}
    figures: list[tuple[str, Figure | None]] = []
    for key in comparison.keys:
        found = sorted((one for one in comparison.curves if one.key == key), key=lambda one: order[one.job])
        curves = [_as_curve(one) for one in found]
        strokes = [order[one.job] for one in found]
        figure = build_figure(curves, [names[one.job] for one in found], strokes) if curves else None
        figures.append((key, figure))
    return figures


def _name(run: JobView, *, swept: bool) -> str:
    """What tells a run from the others: all of a sweep have the name of one experiment."""
    return describe_combination(run.sweep.combination) if swept and run.sweep is not None else run.name


def _as_curve(one: ComparedCurve) -> Curve:
    return Curve.model_construct(
        key=one.key, steps=one.steps, values=one.values, times=one.times, total_points=one.total_points
    )


def _find_best(comparison: Comparison) -> Mapping[str, float]:
    """Each run's best value of the primary metric, where that is what is shown first."""
    primary: PrimaryView | None = comparison.primary
    if primary is None or not comparison.keys or comparison.keys[0] != primary.key:
        return {}
    found = {
        curve.job: curve.low if primary.better == "lower" else curve.high
        for curve in comparison.curves
        if curve.key == primary.key
    }
    return {job: value for job, value in found.items() if value is not None and not isinstance(value, str)}


def _count_differing(settings: Sequence[ComparedSetting]) -> int:
    return sum(one.differs for one in settings)
