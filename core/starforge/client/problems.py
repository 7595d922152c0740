"""An answer that is no success, as the error that says what the caller can do about it."""

from collections.abc import Mapping, Sequence
from typing import Final

from pydantic import ValidationError

from starforge.contract.api import PROBLEM_TYPE, Problem, RefusalView
from starforge.errors import (
    Busy,
    ClientTooOld,
    CodeExpired,
    Conflict,
    InputError,
    NotFound,
    ProgressAtRisk,
    Refused,
    SignInDenied,
    SignInPending,
    SignInRequired,
    SlowDown,
    SpecError,
    StarForgeError,
    Unavailable,
)
from starforge.wording import join_sentences

_AGAIN: Final = "repeat it in a moment"
_DEFAULT_RETRY_S: Final = 1.0
_MAX_RETRY_S: Final = 60.0
_SERVER_FAULT: Final = 500
_CLIENT_FAULT: Final = 400
_UNAUTHORIZED: Final = 401
_BUSY: Final = 429
_BY_STATUS: Final[Mapping[int, type[StarForgeError]]] = {
    400: InputError,
    401: SignInRequired,
    404: NotFound,
    409: Conflict,
    412: Conflict,
    413: InputError,
    415: InputError,
    422: SpecError,
    426: ClientTooOld,
}

_BY_CODE: Final[Mapping[str, type[StarForgeError]]] = {
    kind.code: kind for kind in (ProgressAtRisk, SignInPending, SlowDown, SignInDenied, CodeExpired)
}


class AdmissionRefused(Refused):
    """The console named what stands against the request; `refusals` holds all of it."""

    code = "admission_refused"

    def __init__(self, what: str, refusals: Sequence[RefusalView], *, next_step: str = "") -> None:
        super().__init__(what, why="\n".join(map(_describe_refusal, refusals)), next_step=next_step)
        self.refusals = tuple(refusals)


def read_error(status: int, headers: Mapping[str, str], body: bytes) -> StarForgeError:
    """The typed error for an answer with `status` of 300 or more."""
    if status < _CLIENT_FAULT:
        target = headers.get("location", "another address")
        return Unavailable(
            f"the console answered with a redirect to {target}",
            why="a token is never sent to an address that was not named",
            next_step="sign in with that address: sf login --server URL",
        )
    problem = _find_problem(headers, body)
    if problem is None:
        return _without_problem(status, headers)
    if status == _BUSY:
        return Busy(
            problem.title,
            retry_after_s=_retry_after_s(headers),
            why=problem.detail,
            next_step=problem.next_step or _AGAIN,
        )
    if problem.refusals:
        return AdmissionRefused(problem.title, problem.refusals, next_step=problem.next_step)
    kind = Unavailable if status >= _SERVER_FAULT else _BY_CODE.get(problem.code, _BY_STATUS.get(status, Refused))
    return kind(problem.title, why=problem.detail, next_step=problem.next_step or _next_step(status))


def _find_problem(headers: Mapping[str, str], body: bytes) -> Problem | None:
    if not headers.get("content-type", "").startswith(PROBLEM_TYPE):
        return None
    try:
        return Problem.model_validate_json(body)
    except ValidationError:
        return None


def _without_problem(status: int, headers: Mapping[str, str]) -> StarForgeError:
    what = f"the server answered {status}"
    if status == _BUSY:
        return Busy(what, retry_after_s=_retry_after_s(headers), next_step=_AGAIN)
    if status >= _SERVER_FAULT:
        return Unavailable(
            what,
            why="it may be starting, or a proxy before it has no connection",
            next_step="repeat it in a minute; if it stays so, ask the console's administrator",
        )
    why = "the answer is none of a StarForge console"
    return _BY_STATUS.get(status, Refused)(what, why=why, next_step=_next_step(status) or "check the server's address")


def _next_step(status: int) -> str:
    return "sign in: sf login --server URL" if status == _UNAUTHORIZED else ""


def _retry_after_s(headers: Mapping[str, str]) -> float:
    try:
        wanted = float(headers.get("retry-after", ""))
    except ValueError:
        return _DEFAULT_RETRY_S
    return min(max(wanted, 0.0), _MAX_RETRY_S)


def _describe_refusal(refusal: RefusalView) -> str:
    gate = f"{refusal.gate}: " if refusal.gate else ""
    return gate + join_sentences(refusal.what, refusal.why, refusal.next_step)
