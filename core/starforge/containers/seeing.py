"""What the engine's words about one container mean for its attempt: pure."""

from datetime import datetime
from typing import Final

from starforge.containers.engine import Document
from starforge.containers.failures import classify_message
from starforge.containers.labels import Claim, State
from starforge.contract.observation import Exit, Failure, NoSignal, Observation, Phase, Seen

PHASES: Final = {
    State.CREATED: Phase.PREPARING,
    State.RUNNING: Phase.RUNNING,
    State.PAUSED: Phase.RUNNING,
    State.RESTARTING: Phase.RUNNING,
    State.EXITED: Phase.EXITED,
    State.DEAD: Phase.EXITED,
}
"""The engine's states as phases; a word that is missing here tells nothing of the attempt."""

_NEVER: Final = "0001-"


def needs_inspection(claim: Claim) -> bool:
    """Whether the listing alone does not tell enough: it holds neither exit codes nor the errors of a start."""
    return claim.state in {State.EXITED, State.DEAD, State.CREATED}


def build_observation(
    claim: Claim, inspected: Document | None, node: str, at: float, engine_started_at: float | None
) -> Observation:
    """What `claim` and, where it was needed, the inspected container say of the attempt."""
    phase = PHASES.get(State(claim.state)) if claim.state in set(State) else None
    if phase is None:
        return NoSignal(reason=f"the engine calls the container {claim.state!r}")
    state: Document = inspected["State"] if inspected else {}
    failure, note = _find_failed_start(claim, state)
    ended = phase is Phase.EXITED and failure is None
    return Seen(
        phase=Phase.EXITED if failure else phase,
        at=at,
        node=node,
        exit=_build_exit(state, engine_started_at) if ended else None,
        failure=failure,
        gpus=claim.gpus,
        image_id=claim.image_id or None,
        note=note,
    )


def parse_time(text: str) -> float | None:
    """Unix seconds of the engine's time, or None for "never" and for what is no time."""
    if not text or text.startswith(_NEVER):
        return None
    whole, _, rest = text.removesuffix("Z").partition(".")
    try:
        seconds = datetime.fromisoformat(whole + "+00:00").timestamp()
        return seconds + float(f"0.{rest or 0}")
    except ValueError:
        return None


def _find_failed_start(claim: Claim, state: Document) -> tuple[Failure | None, str]:
    """A start that failed leaves the container `created`, with an exit code and the reason."""
    error = str(state.get("Error") or "")
    if claim.state != State.CREATED or not error:
        return None, ""
    fault = classify_message(error)
    return (fault.failure, fault.note) if fault else (Failure.NODE_FAULT, error)


def _build_exit(state: Document, engine_started_at: float | None) -> Exit:
    code = state.get("ExitCode")
    return Exit(
        code=int(code) if code is not None else None,
        out_of_memory=bool(state.get("OOMKilled")),
        started_at=parse_time(str(state.get("StartedAt") or "")),
        finished_at=parse_time(str(state.get("FinishedAt") or "")),
        engine_started_at=engine_started_at,
        error=str(state.get("Error") or ""),
    )
