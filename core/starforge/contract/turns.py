"""The messages by which jobs are paused and go on."""

from starforge.contract.api import StopRequest
from starforge.contract.jobspec import Frozen, Text


class PauseRequest(StopRequest):
    """`POST /jobs/{id}/pause`. Without `lose_progress` a job that has kept no checkpoint is not paused: code 409."""

    lose_progress: bool = False


class GoOnRequest(Frozen):
    """`POST /jobs/{id}/resume` and `POST /jobs/{id}/retry`."""

    note: Text | None = None
