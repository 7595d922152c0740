"""The calls of the console's API about the queue, typed by the contract."""

from urllib.parse import quote

from starforge.client.console import Console
from starforge.client.http import Request
from starforge.contract.queue import JobWhy, MoveInQueue


class QueueConsole(Console):
    """The console as its API shows its queue."""

    def why(self, job: str) -> JobWhy:
        """Why a job waits, machine by machine, and what would start it now."""
        return self._get(JobWhy, f"/jobs/{quote(job, safe='')}/why")

    def move_in_queue(self, job: str, move: MoveInQueue) -> None:
        """Let a queued job stand first, last, or where it belongs; fine when it does. For administrators."""
        path = f"/admin/queue/{quote(job, safe='')}"
        self.connection.send(Request(method="PUT", path=path, json=move.model_dump(mode="json")))
