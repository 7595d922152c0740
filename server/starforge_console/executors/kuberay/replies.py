"""What a reply of the API server means: an answer, a refusal, or no answer at all. Pure."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

from starforge.errors import BackendUnreachable
from starforge.said.sentence import say

_UNTYPED: Final = "create typed patch"
"""What a server says that does not know a field of what is applied: it says so with 500, and nothing was done."""
_NO_ANSWER: Final = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS})
_WORDS: Final = 500


class KubeSilent(BackendUnreachable):
    """No answer came that says anything of the cluster: what is asked for, or was to be done, is not known."""

    def __init__(self, what: str, *, status: int = 0, retry_after_s: float | None = None, next_step: str = "") -> None:
        super().__init__(what, next_step=next_step)
        self.status = status
        self.retry_after_s = retry_after_s


class KubeRefused(Exception):
    """The API server answered, and did nothing of it. `reason` is its own word, such as Conflict."""

    def __init__(self, status: int, reason: str, words: str) -> None:
        super().__init__(words)
        self.status = status
        self.reason = reason
        self.words = words


class Expired(Exception):
    """A version, or a place in a list, is too old to go on from: ask anew."""


def check_read(status: int, document: Any, headers: Mapping[str, str]) -> None:  # noqa: ANN401 - parsed JSON, or a text
    """Return if the reply to a question is an answer. Raises Expired, KubeRefused for 404 alone, or KubeSilent."""
    if status == HTTPStatus.OK and isinstance(document, dict):
        return
    reason, words = read_words(document)
    if status == HTTPStatus.GONE:
        raise Expired
    if status == HTTPStatus.NOT_FOUND:
        raise KubeRefused(status, reason, words)
    raise _explain_silence(status, words, headers)


def check_write(status: int, document: Any, headers: Mapping[str, str]) -> None:  # noqa: ANN401 - the same
    """Return if it was done. Raises KubeRefused where nothing was, and KubeSilent where that is not known."""
    if HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES and isinstance(document, dict):
        return
    reason, words = read_words(document)
    untyped = status == HTTPStatus.INTERNAL_SERVER_ERROR and _UNTYPED in words
    said_no = HTTPStatus.BAD_REQUEST <= status < HTTPStatus.INTERNAL_SERVER_ERROR
    if untyped or (said_no and status not in {*_NO_ANSWER, HTTPStatus.UNAUTHORIZED} and isinstance(document, dict)):
        raise KubeRefused(status, reason, words)
    raise _explain_silence(status, words, headers)


def read_words(document: Any) -> tuple[str, str]:  # noqa: ANN401 - the same
    """The server's word and words, with every cause that the words do not hold already."""
    if not isinstance(document, dict):
        return "", " ".join(str(document).split())[:_WORDS]
    words = str(document.get("message") or "")
    details = document.get("details")
    causes = details.get("causes") if isinstance(details, dict) else None
    for cause in causes if isinstance(causes, list) else ():
        told = f"{cause.get('field', '')}: {cause.get('message', '')}" if isinstance(cause, dict) else ""
        if told and str(cause.get("message", "")) not in words:
            words += f"; {told}"
    return str(document.get("reason") or ""), words


def _explain_silence(status: int, words: str, headers: Mapping[str, str]) -> KubeSilent:
    why = words or f"HTTP {status}"
    if status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
        return KubeSilent(
            say("kuberay.refused", why=why),
            status=status,
            next_step=say("kuberay.check"),
        )
    return KubeSilent(
        say("kuberay.no_answer", why=why), status=status, retry_after_s=_read_seconds(headers.get("retry-after", ""))
    )


def _read_seconds(text: str) -> float | None:
    return float(text) if text.isascii() and text.isdigit() else None
