"""Examples of the messages about the queue, capacity, and when what may run."""

from pydantic import BaseModel

from starforge.contract import queue, windows
from starforge.contract.api import WaitView
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
    share = queue.ShareView(user="ann", team="vision", jobs=3, gpu_hours=12.5, team_gpu_hours=96.0)
    promise = queue.PromiseView(place=1, job=job, by=AT + 7200, node="lab/node-1", passed=2, passed_at_most=16)
    return [
        capacity,
        queue.MoveInQueue(to="first"),
        queue.JobWhy(
            job=job.id,
            state="QUEUED",
            place=1,
            waits=(WaitView(reason="2 of 8 h100 GPUs free, 4 asked for", places=("node-1",)),),
            nodes=(queue.NodeWhy(fleet="lab", node="node-1", why="2 of 8 h100 GPUs free, 4 asked for"),),
            starts_with=(queue.StartsWith(change="gpus", value="2", fleet="lab", node="node-1"),),
        ),
        queue.CapacityList(items=(capacity,)),
        share,
        promise,
        queue.QueueList(
            items=(queue.QueueEntry(place=1, priority=0, job=job),),
            jobs=1,
            gpus=1,
            shares=(share,),
            promises=(promise,),
        ),
        *_windows(),
    ]


def _windows() -> list[BaseModel]:
    """The messages about when fleets, teams and profiles may run."""
    spans, without = ("mon-fri 20:00-08:00", "sat,sun 00:00-24:00"), ("2026-12-24",)
    window = windows.WindowView(
        kind="fleet",
        name="lab",
        zone="Europe/Berlin",
        open=spans,
        without=without,
        goes_on=True,
        is_open=False,
        changes_at=AT + 3600,
        set_by="root",
        set_at=AT,
    )
    edge = windows.EdgeView(
        at=AT + 3600, edge="opens", kind="fleet", name="lab", zone="Europe/Berlin", local="Mon 2026-07-06 20:00"
    )
    return [
        windows.SetWindow(zone="Europe/Berlin", open=spans, without=without),
        window,
        windows.WindowList(items=(window,)),
        edge,
        windows.OpeningHours(windows=(window,), edges=(edge,)),
    ]
