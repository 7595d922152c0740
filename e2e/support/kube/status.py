"""What an API server of Kubernetes says when it refuses: a Status body, and the error that carries it."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

Json: TypeAlias = Any
"""Anything that JSON can say."""
Document: TypeAlias = dict[str, Any]
REASONS: Final = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    409: "Conflict",
    410: "Expired",
    415: "UnsupportedMediaType",
    422: "Invalid",
    429: "TooManyRequests",
}


class Refusal(Exception):
    """A request that is answered with a Status."""

    def __init__(self, code: int, message: str, *, reason: str = "", details: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.headers: dict[str, str] = {}
        self.body: Document = build_status(code, message, reason=reason, details=details)


def build_status(code: int, message: str, *, reason: str = "", details: Mapping[str, Any] | None = None) -> Document:
    """The body of a failure, as an API server writes it."""
    body: Document = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
    }
    if code in REASONS:
        body["reason"] = reason or REASONS[code]
    if details is not None:
        body["details"] = dict(details)
    return body | {"code": code}


def build_success(name: str, group: str, kind: str, uid: str) -> Document:
    """The body that answers a deletion which is done."""
    details = {"name": name, "group": group, "kind": kind, "uid": uid}
    if not group:
        del details["group"]
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}


def not_found(group: str, plural: str, name: str) -> Refusal:
    """Nothing has that name."""
    return Refusal(404, f'{qualify(plural, group)} "{name}" not found', details=_describe(group, plural, name))


def already_exists(group: str, plural: str, name: str) -> Refusal:
    """Something has that name already."""
    message = f'{qualify(plural, group)} "{name}" already exists'
    return Refusal(409, message, reason="AlreadyExists", details=_describe(group, plural, name))


def stale(group: str, plural: str, name: str) -> Refusal:
    """What is to be changed was changed since it was read."""
    message = (
        f'Operation cannot be fulfilled on {qualify(plural, group)} "{name}": the object has been modified; '
        "please apply your changes to the latest version and try again"
    )
    return Refusal(409, message, details=_describe(group, plural, name))


def invalid(group: str, kind: str, name: str, causes: Sequence[Mapping[str, str]]) -> Refusal:
    """Fields hold what they must not; `causes` are reason, message and field of each."""
    said = [f"{cause['field']}: {cause['message']}" for cause in causes]
    listed = said[0] if len(said) == 1 else f"[{', '.join(said)}]"
    details = {"name": name, "group": group, "kind": kind, "causes": [dict(cause) for cause in causes]}
    return Refusal(422, f'{qualify(kind, group)} "{name}" is invalid: {listed}', details=details)


def expired(message: str) -> Refusal:
    """A position that is too old to go on from."""
    return Refusal(410, message)


def qualify(name: str, group: str) -> str:
    """A plural or kind with its group, as messages write it."""
    return f"{name}.{group}" if group else name


def _describe(group: str, plural: str, name: str) -> Document:
    details = {"name": name, "group": group, "kind": plural}
    if not group:
        del details["group"]
    return details
