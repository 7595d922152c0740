"""Asks the console's API, the storage and the engine whether the demo's training really worked."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from e2e.support.console import ConsoleProcess, wait_for
from starforge.containers.engine import Engine

LEAST_POINTS: Final = 20
LOSS_FALLS_TO: Final = 0.8
CLEANED_UP_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that must be so."""

    holds: bool
    text: str


def check_run(console: ConsoleProcess, job: str, socket_path: str) -> list[Check]:
    """Every check of the run, whether it holds or not."""
    token = console.token()
    detail = wait_for(lambda: _finalised(console, job, token), "the run's log to be complete")
    outputs = console.get(f"/api/v1/jobs/{job}/outputs", token)
    return [
        _check(f"state {detail['job']['state']}", holds=detail["job"]["state"] == "SUCCEEDED"),
        *_check_curve(console.get(f"/api/v1/jobs/{job}/metrics/loss?points=1000", token)),
        _check_log(detail["log"]),
        _check_checkpoint(outputs["checkpoints"]),
        _check_artifact(outputs["artifacts"], console.storage / "runs" / job / "out"),
        _check_engine(socket_path, job),
    ]


def _finalised(console: ConsoleProcess, job: str, token: str) -> Any:  # noqa: ANN401 - a JSON answer
    detail = console.get(f"/api/v1/jobs/{job}", token)
    return detail if detail["log"]["produced_bytes"] is not None else None


def _check_curve(curve: Any) -> list[Check]:  # noqa: ANN401 - a JSON answer
    values = curve["values"]
    first, last = values[0], values[-1]
    return [
        _check(f"{len(values)} points of loss", holds=len(values) >= LEAST_POINTS),
        _check(f"loss went from {first:.4f} to {last:.4f}", holds=last <= LOSS_FALLS_TO * first),
    ]


def _check_log(log: Any) -> Check:  # noqa: ANN401 - a JSON answer
    whole = log["received_bytes"] == log["produced_bytes"] > 0 and not log["missing"]
    return _check(f"log: {log['received_bytes']} of {log['produced_bytes']} bytes received", holds=whole)


def _check_checkpoint(checkpoints: Any) -> Check:  # noqa: ANN401 - a JSON answer
    committed = [one["step"] for one in checkpoints if one["committed"]]
    return _check(f"checkpoints committed at steps {committed}", holds=bool(committed))


def _check_artifact(artifacts: Any, out: Path) -> Check:  # noqa: ANN401 - a JSON answer
    models = [one for one in artifacts if one["path"].endswith("model.json")]
    if len(models) != 1:
        return _failed(f"{len(models)} artifacts called model.json")
    found = hashlib.sha256((out / models[0]["path"]).read_bytes()).hexdigest()
    told = str(models[0]["sha256"]).removeprefix("sha256:")
    return _check(f"artifact {models[0]['path']} has the digest that was reported", holds=found == told)


def _check_engine(socket_path: str, job: str) -> Check:
    engine = Engine(socket_path)

    def is_clean() -> bool:
        return not engine.list_containers(f"forge.job={job}")

    try:
        wait_for(is_clean, "the container to be removed", CLEANED_UP_S)
    except TimeoutError:
        return _failed("a container of the job is left")
    return _passed("no container of the job is left")


def _passed(text: str) -> Check:
    return Check(holds=True, text=f"ok   {text}")


def _failed(text: str) -> Check:
    return Check(holds=False, text=f"FAIL {text}")


def _check(text: str, *, holds: bool) -> Check:
    return _passed(text) if holds else _failed(text)
