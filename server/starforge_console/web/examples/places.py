"""Examples of the messages about the queue, capacity, and who may hold how much."""

from pydantic import BaseModel

from starforge.contract import people, queue
from starforge.contract.api import WaitView
from starforge.contract.quotas import Held
from starforge_console.web.examples.jobs import AT, build_line


def build_places() -> list[BaseModel]:
    """The messages about what waits and what it waits for."""
    waits = (WaitView(reason="8 of 8 GPUs in use", places=("node-1",)),)
    job = build_line().model_copy(
        update={
            "state": "QUEUED",
            "reason": "admitted",
            "node": None,
            "started_at": None,
            "state_since": AT,
            "waits": waits,
        }
    )
    capacity = queue.SeriesCapacity(series="h100", gpus={"held": 6, "free": 2}, waiting=1)
    user = people.UserView(name="ann", role="member", active=True, team="vision", held=Held(gpus=1, jobs=1))
    return [
        capacity,
        queue.CapacityList(items=(capacity,)),
        queue.QueueList(items=(queue.QueueEntry(place=1, priority=0, job=job),), jobs=1, gpus=1),
        user,
        people.UserList(items=(user,)),
        people.SetTeam(team="vision"),
        people.SetQuota(gpus=8, series=("h100",)),
    ]
