"""Examples of the messages about sweeps."""

from typing import Final

from pydantic import BaseModel

from starforge.contract import sweeps
from starforge.contract.api import CheckView
from starforge.contract.combinations import SweepPart
from starforge.contract.comparing import PrimaryView
from starforge_console.web.examples.jobs import AT, DIGEST, JOB, KEY, build_line, build_spec

SWEEP: Final = "sw2k7abcdef"


def build_sweeps() -> list[BaseModel]:
    """The messages about a sweep, from its submission to its end."""
    combinations = tuple({"lr": lr} for lr in (0.001, 0.01))
    view = sweeps.SweepView(
        id=SWEEP,
        name="rates",
        experiment="first",
        project="demo",
        user="ann",
        keys=("lr",),
        size=2,
        submitted_at=AT,
        states={"RUNNING": 1, "SUCCEEDED": 1},
        active=1,
    )
    part = SweepPart(id=SWEEP, name="rates", combination=combinations[0])
    run = sweeps.SweepRun(job=build_line().model_copy(update={"sweep": part}), best=0.42, best_step=80)
    swept = sweeps.SweptJob(job=JOB, combination=combinations[0], spec_digest=DIGEST)
    check = CheckView(gate="image", outcome="passed", against="*", message="python:3.12-slim")
    return [
        sweeps.SweepRequest(spec=build_spec(), name="rates", combinations=combinations),
        sweeps.SweepRecord(sweep=SWEEP, name="rates", jobs=(swept,), checks=(check,)),
        view,
        sweeps.SweepList(items=(view,)),
        sweeps.SweepDetail(sweep=view, primary=PrimaryView(key=KEY, better="lower"), runs=(run,)),
        sweeps.SweepStopped(sweep=SWEEP, asked=1, ended=1),
    ]
