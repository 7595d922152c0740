"""What a run gives, as the API tells it: curves, artifacts and checkpoints."""

from typing import Literal

from pydantic import Field

from starforge.contract.api import Answer


class MetricKeys(Answer):
    """`GET /jobs/{id}/metrics?q=&after=&limit=`: key -> how many points, by name. `next` continues; null at the end."""

    keys: dict[str, int]
    primary: str | None = Field(default=None, description="the key by which runs of the job's method are compared")
    total: int | None = Field(default=None, description="how many metrics the job has, whatever was searched for")
    next: str | None = None


class Curve(Answer):
    """`GET /jobs/{id}/metrics/{key}?points=N&attempt=`: at most about N points that keep minima and maxima.

    Where a later attempt began again at an earlier step, its points count from there on; `attempt` asks for one alone.

    `values` holds numbers, or the texts `nan`, `inf`, `-inf`.
    """

    key: str
    steps: tuple[int, ...]
    values: tuple[float | Literal["nan", "inf", "-inf"], ...]
    times: tuple[float, ...]
    total_points: int


class FileView(Answer):
    """An artifact, or a file of a checkpoint."""

    path: str
    bytes: int
    sha256: str | None = None
    folder: str = Field(default="out", description="the folder of the run; `out-N` since the attempt before N was lost")
    storage_path: str | None = Field(default=None, description="where it lies on the storage, as the console sees it")


class CheckpointView(Answer):
    """A checkpoint of an attempt."""

    attempt: int
    step: int
    path: str
    committed: bool
    bytes: int | None = None
    value: float | None = Field(default=None, description="the method's primary metric at its step, where it is known")
    best: bool = Field(default=False, description="of the committed ones the best by that metric")
    removed_at: float | None = Field(default=None, description="when retention removed it; None while it is there")
    storage_path: str | None = Field(default=None, description="where it lies on the storage, as the console sees it")


class Outputs(Answer):
    """`GET /jobs/{id}/outputs`."""

    artifacts: tuple[FileView, ...] = ()
    checkpoints: tuple[CheckpointView, ...] = ()
