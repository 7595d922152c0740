"""What the API tells of several runs side by side: `GET /compare?job=&job=&key=&points=`."""

from typing import Final, Literal

from pydantic import Field, JsonValue

from starforge.contract.api import Answer, JobView

RUNS_AT_MOST: Final = 50
KEYS_AT_MOST: Final = 24
CURVES_AT_MOST: Final = 400
POINTS_AT_MOST: Final = 2000

Number = float | Literal["nan", "inf", "-inf"]


class PrimaryView(Answer):
    """The metric by which runs of a method are compared, and which of two values is better."""

    key: str
    better: Literal["lower", "higher"]


class ComparedCurve(Answer):
    """One curve of one run in constant size, minima and maxima among its points.

    `low` and `high` are the extremes of all its points; null where none is a number.
    """

    job: str
    key: str
    steps: tuple[int, ...]
    values: tuple[Number, ...]
    times: tuple[float, ...]
    total_points: int
    last: Number
    low: Number | None = None
    low_step: int | None = None
    high: Number | None = None
    high_step: int | None = None


class ComparedSetting(Answer):
    """One setting of all runs, in the order of `runs`; null where a run does not have it."""

    name: str
    values: tuple[JsonValue, ...]
    differs: bool


class Comparison(Answer):
    """`GET /compare`: 1 to 50 runs. Without a `key` the metric is chosen that says most of all of them."""

    runs: tuple[JobView, ...]
    keys: tuple[str, ...] = Field(description="the metrics whose curves are here")
    key_count: int = Field(description="how many metrics any of the runs has reported")
    primary: PrimaryView | None = Field(default=None, description="where all runs are of methods that share it")
    curves: tuple[ComparedCurve, ...]
    settings: tuple[ComparedSetting, ...]
