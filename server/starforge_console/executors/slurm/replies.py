"""What a reply of the REST daemon means: an answer, an unknown job, or no answer at all. Pure.

Statuses say little: an unknown job is 500 or 404 by version, an expired token 500 or 511, and a version that is not
served any more 404. The numbers of the errors in the reply say more, and what says nothing is no answer.
"""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any, Final

from starforge.errors import BackendUnreachable
from starforge.said.sentence import say
from starforge_console.executors.slurm.decode.family import read_complaints
from starforge_console.executors.slurm.native import Complaint

UNKNOWN_JOB: Final = 2017
ALREADY_DONE: Final = 2021
UNSPECIFIED: Final = -1
"""What versions up to 24.05 say of a token that they do not take, and of a controller that is away."""
_UNSPECIFIED: Final = "Unspecified error"
TOKEN_REFUSED: Final = frozenset({1007, 2002, 6000, 6001, 6002})
"""Protocol authentication error, user missing or denied, and what the authentication plugins say."""


class SlurmSilent(BackendUnreachable):
    """No answer came that says anything of the cluster: what is asked for is not known."""


class TokenRefused(SlurmSilent):
    """The daemon, or the controller behind it, does not take the token."""


class VersionGone(SlurmSilent):
    """The version that was spoken is not served any more: ask anew which are."""


class JobUnknown(Exception):
    """The controller answered that it knows no such job."""


def check_reply(status: int, content_type: str, document: Any) -> None:  # noqa: ANN401 - parsed JSON, or a text
    """Return if the reply is an answer. Raises JobUnknown, TokenRefused, VersionGone or SlurmSilent."""
    if not isinstance(document, dict):
        _refuse_text(status, content_type, str(document))
    complaints = read_complaints(document)
    if any(one.number == UNKNOWN_JOB for one in complaints):
        raise JobUnknown
    if status == HTTPStatus.OK and not complaints:
        return
    raise explain_complaints(status, complaints)


def explain_complaints(status: int, complaints: Sequence[Complaint]) -> SlurmSilent:
    """What errors mean that came in place of an answer."""
    words = join_words(complaints) or f"HTTP {status}"
    refused = status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.NETWORK_AUTHENTICATION_REQUIRED}
    if refused or any(one.number in TOKEN_REFUSED for one in complaints):
        return TokenRefused(say("slurm.token_refused", why=words))
    if any(one.number == UNSPECIFIED or one.text == _UNSPECIFIED for one in complaints):
        return SlurmSilent(say("slurm.unspecified", why=words), next_step=say("slurm.unspecified_next"))
    return SlurmSilent(say("slurm.no_answer", why=words))


def join_words(complaints: Sequence[Complaint]) -> str:
    """Slurm's own words, with its number where there is one."""
    return "; ".join(f"{one.text} ({one.number})" if one.number else one.text for one in complaints)


def _refuse_text(status: int, content_type: str, text: str) -> None:
    words = " ".join(text.split())[:200]
    if "authentication" in words.lower():
        raise TokenRefused(say("slurm.token_refused", why=words))
    if status == HTTPStatus.NOT_FOUND:
        raise VersionGone(say("slurm.version_gone", why=words))
    raise SlurmSilent(say("slurm.no_answer", why=words or _name(status, content_type)))


def _name(status: int, content_type: str) -> str:
    return f"HTTP {status}, {content_type}" if content_type else say("slurm.no_content", status=status)
