"""The calls of the console's API about the queue, typed by the contract."""

from urllib.parse import quote

from starforge.client.console import Console
from starforge.client.http import Request
from starforge.contract.api import PAGE_LIMIT
from starforge.contract.queue import JobWhy, MoveInQueue, QueueList


class QueueConsole(Console):
    """The console as its API shows its queue."""

    def why(self, job: str) -> JobWhy:
        """Why a job waits, machine by machine, and what would start it now."""
        return self._get(JobWhy, f"/jobs/{quote(job, safe='')}/why")

    def queue(self, series: str, limit: int) -> QueueList:
        """The first `limit` queued jobs, of `series` alone where it is not empty, with what is told beside them."""
        found = self._get(QueueList, "/queue", _ask(series, 0, limit))
        while found.next is not None and len(found.items) < limit:
            more = self._get(QueueList, "/queue", _ask(series, found.next, limit - len(found.items)))
            found = found.model_copy(update={"items": (*found.items, *more.items), "next": more.next})
        return found

    def move_in_queue(self, job: str, move: MoveInQueue) -> None:
        """Let a queued job stand first, last, or where it belongs; fine when it does. For administrators."""
        path = f"/admin/queue/{quote(job, safe='')}"
        self.connection.send(Request(method="PUT", path=path, json=move.model_dump(mode="json")))


def _ask(series: str, after: int, limit: int) -> dict[str, str | int]:
    return {"series": series, "after": after, "limit": min(PAGE_LIMIT, limit)}
