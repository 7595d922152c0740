"""The curves of a job's page: which are shown, their points for the page's script, and all of them as a file."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Final

import msgspec
from fastapi import APIRouter, Query
from pydantic import Field, StringConstraints
from starlette.responses import Response

from starforge.contract.comparing import RUNS_AT_MOST
from starforge.contract.results import Curve
from starforge.errors import InputError
from starforge_console.domain.drawing import EVERYTHING, Look, Window
from starforge_console.web.deps import ApiServices, Services
from starforge_console.web.pages.figures import (
    POINTS_AT_FIRST,
    Figure,
    Group,
    build_figures,
    choose_groups,
    choose_system,
    group_of,
    list_groups,
)
from starforge_console.web.pages.job_view import JobPage
from starforge_console.web.pages.visit import Signed
from starforge_console.web.points_file import Keys as FileKeys
from starforge_console.web.points_file import send_csv
from starforge_console.web.primary_metric import find_primary
from starforge_console.web.series import HIGHEST_STEP, LOWEST_STEP, build_window

KEYS_AT_MOST: Final = 24
BOXES_AT_MOST: Final = 200
POINTS: Final = 1000

router = APIRouter(include_in_schema=False)

Key = Annotated[str, StringConstraints(max_length=256)]
Keys = Annotated[list[Key], Query(max_length=KEYS_AT_MOST)]
Steps = list[Annotated[int, Field(ge=LOWEST_STEP, le=HIGHEST_STEP)]]
FirstSteps = Annotated[Steps, Query(alias="from", max_length=RUNS_AT_MOST)]
LastSteps = Annotated[Steps, Query(alias="to", max_length=RUNS_AT_MOST)]


@dataclass(frozen=True, slots=True)
class CurveChoice:
    """What the reader asks for: some keys, a group of them, or those that hold a text; else the most telling."""

    keys: Sequence[str] = ()
    group: str = ""
    text: str = ""

    @property
    def is_made(self) -> bool:
        """Whether anything is asked for."""
        return bool(self.keys or self.group or self.text)

    def narrow(self, points: Mapping[str, int]) -> dict[str, int]:
        """Those of the keys that group and text leave."""
        text = self.text.lower()
        found = {key: count for key, count in points.items() if text in key.lower()}
        wanted = "" if self.group == NO_GROUP else self.group
        return {key: count for key, count in found.items() if group_of(key) == wanted} if self.group else found


NO_GROUP: Final = "/"
"""What an address calls the group of keys without one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvesPart:
    """The curves as the page shows them. `told` are values that were reported once by a job that has ended."""

    choice: CurveChoice
    drawn: Sequence[Figure]
    told: Sequence[Figure]
    system: Sequence[Figure]
    groups: Sequence[Group]
    boxes: Mapping[str, int]
    left_out: int
    total: int

    @property
    def chosen(self) -> frozenset[str]:
        """The keys that are shown."""
        return frozenset(line.key for figure in (*self.drawn, *self.told) for line in figure.lines)

    @property
    def has_figures(self) -> bool:
        """Whether anything of the training is shown."""
        return bool(self.drawn or self.told)


async def load_curves_part(services: ApiServices, page: JobPage, choice: CurveChoice) -> CurvesPart:
    """The curves that are asked for, with as many points as a first picture needs."""
    primary = await find_primary(services.catalog, page.line.recipe)
    found = choice.narrow(page.keys)
    chosen = [key for key in choice.keys if key in page.keys]
    asked = chosen or (list(found) if choice.is_made else [])
    training = choose_groups(page.keys, asked, primary) if asked or not choice.is_made else []
    system = choose_system(page.keys)
    keys = [key for group in (*training, *system) for key in group]
    curves = await services.curves.curves([(page.id, key) for key in keys], POINTS_AT_FIRST)
    by_key = {key: curve for (_, key), curve in curves.items()}
    figures = build_figures(training, by_key)
    boxes = dict(sorted(found.items())[:BOXES_AT_MOST])
    return CurvesPart(
        choice=choice,
        drawn=[figure for figure in figures if figure.is_curve or not page.has_ended],
        told=[figure for figure in figures if page.has_ended and not figure.is_curve],
        system=build_figures(system, by_key),
        groups=list_groups(page.keys),
        boxes=boxes,
        left_out=len(found) - len(boxes),
        total=len(page.keys),
    )


@router.get("/jobs/{job_id}/curves")
async def send_curves(  # noqa: PLR0913 - one parameter a choice of the reader
    services: Services,
    _visit: Signed,
    job_id: str,
    *,
    key: Keys = [],  # noqa: B006 - read only
    attempt: Annotated[int | None, Query(ge=1, le=1_000_000)] = None,
    first: FirstSteps = [],  # noqa: B006 - read only
    last: LastSteps = [],  # noqa: B006 - read only
) -> Response:
    """The points of some curves, for the page's script; with steps, one pair for each curve, of these parts of them."""
    windows = build_windows(len(key), first, last)
    looks = {(job_id, one): Look(POINTS, attempt, window) for one, window in zip(key, windows, strict=True)}
    found = await services.curves.look(looks)
    return send_columns({one: as_columns(curve) for (_, one), curve in found.items()})


def build_windows(count: int, first: Sequence[int], last: Sequence[int]) -> list[Window]:
    """The steps that are asked for of each of `count` curves: without any, all. Raises InputError for other counts."""
    if not first and not last:
        return [EVERYTHING] * count
    if not count == len(first) == len(last):
        raise InputError(
            f"{len(first)} first and {len(last)} last steps were named for {count} curves",
            why="each curve has its own",
            next_step="name both once for each curve, or none",
        )
    return [build_window(*steps) for steps in zip(first, last, strict=True)]


def as_columns(curve: Curve) -> dict[str, object]:
    """A curve for a page's script; `total` is how many points it stands for."""
    return {"steps": curve.steps, "values": curve.values, "times": curve.times, "total": curve.total_points}


def send_columns(curves: object) -> Response:
    """Curves as JSON. There may be hundreds: they are encoded by what takes the least time for it."""
    headers = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
    return Response(msgspec.json.encode(curves), headers=headers, media_type="application/json")


@router.get("/jobs/{job_id}/metrics.csv")
async def send_points(services: Services, _visit: Signed, job_id: str, keys: FileKeys = []) -> Response:  # noqa: B006 - read only
    """Every point of the job's curves, or of some, as a file."""
    return await send_csv(services, job_id, keys)
