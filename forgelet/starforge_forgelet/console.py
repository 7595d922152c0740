"""Talks to the console at its public address: joins, takes epochs, and sends heartbeats signed with the node's key."""

import base64
import ssl
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final, Protocol, TypeVar

import httpx2
import msgspec

from starforge import __version__
from starforge.contract.registration import (
    COUNTER_HEADER,
    EPOCH_HEADER,
    EPOCH_PATH,
    EPOCH_PURPOSE,
    HEARTBEAT_PATH,
    HEARTBEAT_PURPOSE,
    JOIN_PATH,
    SIGNATURE_HEADER,
    EpochAnswer,
    EpochRequest,
    Fenced,
    HeartbeatAnswer,
    JoinAnswer,
    JoinRequest,
    Superseded,
    signed_bytes,
)
from starforge.contract.wire import NodeReport, decode, encode
from starforge.errors import Refused, SpecError, StarForgeError, Unavailable
from starforge_forgelet.state import NodeIdentity

_TIMEOUT: Final = httpx2.Timeout(15.0, connect=5.0)
_MOST_BYTES: Final = 1 << 20
_T = TypeVar("_T")


class Signs(Protocol):
    """Holds the node's key (starforge.trust.signatures.Signer)."""

    def sign(self, message: bytes) -> bytes:
        """The signature over `message`."""


class _Problem(msgspec.Struct):
    """What of the console's problem document is for people."""

    title: str = ""
    detail: str = ""
    next_step: str = ""


class ConsoleLink:
    """One console, by its public address; `https_proxy` and its like are honoured, as for any client of it."""

    def __init__(self, server: str) -> None:
        self._server = server.rstrip("/")
        self._client = httpx2.AsyncClient(timeout=_TIMEOUT, headers={"user-agent": f"forgelet/{__version__}"})

    async def close(self) -> None:
        """End the connections."""
        await self._client.aclose()

    async def join(self, request: JoinRequest) -> JoinAnswer:
        """Register this machine.

        Raises:
            Unavailable: the console was not reached.
            Refused: it said no.

        """
        return await self._post(JOIN_PATH, encode(request), {}, JoinAnswer)

    async def take_epoch(self, identity: NodeIdentity, signer: Signs, request: EpochRequest) -> int | Superseded:
        """The epoch after `request.have`, or the word that another daemon has taken it. Raises as `join`."""
        body = encode(request)
        headers = _sign(signer, EPOCH_PURPOSE, identity, (request.have, 0), body)
        answer = await self._ask(EPOCH_PATH.format(node=identity.node), body, headers)
        if answer.status_code == HTTPStatus.CONFLICT:
            return _read(answer, Superseded)
        return _read(_require_ok(answer), EpochAnswer).epoch

    async def beat(
        self, identity: NodeIdentity, signer: Signs, report: NodeReport, counter: int
    ) -> HeartbeatAnswer | Superseded | Fenced:
        """Send a heartbeat; `counter` rises within the report's epoch. Raises as `join`."""
        body = encode(report)
        headers = _sign(signer, HEARTBEAT_PURPOSE, identity, (report.epoch, counter), body)
        answer = await self._ask(HEARTBEAT_PATH.format(node=identity.node), body, headers)
        if answer.status_code != HTTPStatus.CONFLICT:
            return _read(_require_ok(answer), HeartbeatAnswer)
        try:
            return decode(answer.content, Fenced)
        except SpecError:
            return _read(answer, Superseded)

    async def _post(self, path: str, body: bytes, headers: Mapping[str, str], kind: type[_T]) -> _T:
        return _read(_require_ok(await self._ask(path, body, headers)), kind)

    async def _ask(self, path: str, body: bytes, headers: Mapping[str, str]) -> httpx2.Response:
        try:
            return await self._client.post(
                self._server + path, content=body, headers={"content-type": "application/json", **headers}
            )
        except (httpx2.HTTPError, httpx2.InvalidURL, ssl.SSLError, OSError) as error:
            raise Unavailable(
                f"the console at {self._server} was not reached", why=_describe(error), next_step=_advise(error)
            ) from error


def _sign(
    signer: Signs, purpose: bytes, identity: NodeIdentity, numbers: tuple[int, int], body: bytes
) -> dict[str, str]:
    signature = signer.sign(signed_bytes(purpose, identity.install, identity.node, numbers, body))
    return {
        EPOCH_HEADER: str(numbers[0]),
        COUNTER_HEADER: str(numbers[1]),
        SIGNATURE_HEADER: base64.b64encode(signature).decode("ascii"),
    }


def _require_ok(answer: httpx2.Response) -> httpx2.Response:
    if answer.status_code == HTTPStatus.OK:
        return answer
    raise _read_problem(answer)


def _read_problem(answer: httpx2.Response) -> StarForgeError:
    try:
        problem = msgspec.json.decode(answer.content[:_MOST_BYTES], type=_Problem)
    except (msgspec.DecodeError, UnicodeDecodeError):
        problem = _Problem()
    status = answer.status_code
    what = problem.title or f"the console answered {status} {answer.reason_phrase}"
    kind = (
        Unavailable if status >= HTTPStatus.INTERNAL_SERVER_ERROR or status == HTTPStatus.TOO_MANY_REQUESTS else Refused
    )
    return kind(what, why=problem.detail, next_step=problem.next_step)


def _read(answer: httpx2.Response, kind: type[_T]) -> _T:
    try:
        return decode(answer.content, kind)
    except SpecError as error:
        raise Unavailable(
            "what answered is no console of this release",
            why=str(error),
            next_step="check the address, and that console and forgelet are of one release or neighbours",
        ) from error


def _describe(error: BaseException) -> str:
    return str(error) or type(error).__name__


def _advise(error: BaseException) -> str:
    """A wrong clock looks like a bad certificate; the console's public one is the only one whose dates are checked."""
    said = str(error).lower()
    if "not yet valid" in said or "expired" in said:
        return "check this machine's clock, and the certificate of that address"
    if "certificate" in said:
        return "name the CA's file in SSL_CERT_FILE"
    return "check the address, and whether a firewall or a proxy stands between"
