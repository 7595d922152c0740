"""The messages of maintenance: while it lasts nothing is started, and what ran is paused."""

from pydantic import Field

from starforge.contract.api import Answer
from starforge.contract.jobspec import Frozen, Text


class BeginMaintenance(Frozen):
    """`POST /admin/maintenance/drain`."""

    reason: Text | None = None


class MaintenanceView(Answer):
    """`GET /maintenance`, and what both commands answer. Without `since` there is none."""

    since: float | None = Field(default=None, description="when it began")
    by: str = Field(default="", description="which administrator began it")
    reason: str = ""
    running: int = Field(description="jobs that hold a place still")
    paused: int = Field(description="paused jobs that go on by themselves once there is no maintenance")
    queued: int
