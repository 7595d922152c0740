"""One question to one registry, as the OCI distribution API has it: HEAD, a sign-in where asked for, GET where need be.

A login goes to the registry itself and to the one address that it names for signing in, and nowhere else: not along
redirects, not to an address that was named without TLS unless it is the registry's own host. Neither may be just
anywhere: see `leads`. An answer that no registry wrote (a proxy's, a gateway's) is none.
"""

import base64
import hashlib
import json
import re
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

import httpx2

from starforge.contract.ids import is_digest
from starforge.contract.launch import RegistryLogin
from starforge.wording import cut_middle
from starforge_console.domain.images import (
    Denied,
    ImageAnswer,
    ImageQuestion,
    NoSuchTag,
    NotAnswered,
    Resolved,
)
from starforge_console.registries.challenges import Challenge, choose_challenge
from starforge_console.registries.leads import Leads
from starforge_console.registries.places import Place

MANIFESTS: Final = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
BODY_AT_MOST: Final = 4 << 20
REDIRECTS_AT_MOST: Final = 3
_WORDS_AT_MOST: Final = 200
_TOKEN: Final = re.compile(r"[!-~]{1,16384}")
_API_VERSION: Final = "docker-distribution-api-version"

_OK: Final = 200
_UNAUTHORIZED: Final = 401
_FORBIDDEN: Final = 403
_NOT_FOUND: Final = 404
_ASK_BY_GET: Final = frozenset({_UNAUTHORIZED, _FORBIDDEN, _NOT_FOUND, 405, 501})
"""After these the body is read, which HEAD has none of: who wrote it, and in which words."""
_SERVER_ERROR: Final = 500
_GENERAL: Final = frozenset({407, 408, 429})
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})


@dataclass(frozen=True, slots=True)
class _Reply:
    """An answer, read to its end. `body` is None where it is longer than any registry's."""

    url: httpx2.URL
    status: int
    headers: httpx2.Headers
    body: bytes | None

    @property
    def server(self) -> str:
        return shorten(self.headers.get("server", "")) or "a server"


class _Ended(Exception):
    """The conversation is over, with this answer."""

    def __init__(self, answer: ImageAnswer) -> None:
        super().__init__(answer)
        self.answer = answer


class Conversation:
    """One question, as one account or as nobody. Raises what the client raises where nobody answers."""

    def __init__(
        self, client: httpx2.AsyncClient, place: Place, leads: Leads, login: RegistryLogin | None = None
    ) -> None:
        self._client = client
        self._place = place
        self._leads = leads
        self._login = login
        self._authorization: str | None = None
        self._scope = ""
        self._secrets: list[str] = [] if login is None else [login.password.reveal(), _encode(login)]

    async def ask(self, question: ImageQuestion) -> ImageAnswer:
        """What the registry says of it."""
        # A registry that names a wider scope gets no more than this one.
        self._scope = f"repository:{question.repository}:pull"
        path = f"/v2/{quote(question.repository)}/manifests/{quote(question.reference, safe=':')}"
        url = self._place.url.copy_with(raw_path=path.encode("ascii"))
        try:
            return await self._ask(url, question.digest)
        except _Ended as ended:
            return ended.answer

    def mask(self, text: str) -> str:
        """`text` without what was signed in with: a server may say in its error what it was sent."""
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text

    async def _ask(self, url: httpx2.URL, digest: str | None) -> ImageAnswer:
        reply = await self._send("HEAD", url)
        if reply.status == _UNAUTHORIZED:
            self._authorization = await self._sign_in(reply)
            reply = await self._send("HEAD", url)
        if reply.status == _OK:
            told = reply.headers.get("docker-content-digest", "")
            if digest is not None and told not in {"", digest}:
                return self._lie(f"asked for {digest} it says that it gives {told}")
            if told == digest or is_digest(told):
                return Resolved(told)
        elif reply.status not in _ASK_BY_GET:
            return self._not_answered(reply)
        return self._judge(await self._send("GET", url), digest)

    def _judge(self, reply: _Reply, digest: str | None) -> ImageAnswer:
        """What a whole answer says."""
        words = _read_words(reply.body)
        if reply.status == _OK:
            return self._judge_content(reply, digest)
        if reply.status not in {_UNAUTHORIZED, _FORBIDDEN, _NOT_FOUND}:
            return self._not_answered(reply)
        if words is None and _API_VERSION not in reply.headers:
            return NotAnswered(self.mask(f"{reply.status} from {reply.server} that is no registry"))
        why = self.mask(f"{reply.status} {words or ''}".strip())
        return NoSuchTag(why) if reply.status == _NOT_FOUND else Denied(why, had_login=self._login is not None)

    def _judge_content(self, reply: _Reply, digest: str | None) -> ImageAnswer:
        kind = reply.headers.get("content-type", "").partition(";")[0].strip()
        if kind not in MANIFESTS:
            return NotAnswered(self.mask(f"{reply.server} gives {shorten(kind) or 'nothing'} and no manifest"))
        if reply.body is None:
            return NotAnswered(f"its manifest is longer than {BODY_AT_MOST >> 20} MiB")
        found = "sha256:" + hashlib.sha256(reply.body).hexdigest()
        told = reply.headers.get("docker-content-digest", "")
        wanted = {one for one in (told, digest) if one and is_digest(one)}
        if wanted - {found}:
            return self._lie(f"its content is {found} and not {min(wanted - {found})}")
        return Resolved(digest or found)

    def _lie(self, how: str) -> NotAnswered:
        return NotAnswered(self.mask(f"what it says is not true: {shorten(how)}"))

    def _not_answered(self, reply: _Reply) -> NotAnswered:
        words = _read_words(reply.body)
        is_general = reply.status in _GENERAL or reply.status >= _SERVER_ERROR
        return NotAnswered(self.mask(f"{reply.status} {words or f'from {reply.server}'}"), is_general=is_general)

    async def _sign_in(self, reply: _Reply) -> str:
        """The Authorization that the registry asks for. Raises _Ended where there is none to be had."""
        if not self._place.owns(reply.url):
            raise _Ended(NotAnswered(f"it leads to {reply.url.host}, where the console signs in to nothing"))
        challenge = choose_challenge(reply.headers.get_list("www-authenticate"))
        if challenge is None:
            raise _Ended(Denied("it wants a way to sign in that the console does not speak"))
        if challenge.scheme == "bearer":
            return f"Bearer {await self._fetch_token(challenge)}"
        if self._login is None:
            raise _Ended(Denied("it wants a login, and the console has none for it"))
        return f"Basic {_encode(self._login)}"

    async def _fetch_token(self, challenge: Challenge) -> str:
        """A token that reads the one repository; the registry says where it is to be had."""
        realm = await self._read_realm(challenge)
        wanted = {"scope": self._scope}
        if "service" in challenge.parameters:
            wanted["service"] = challenge.parameters["service"]
        signed = {} if self._login is None else {"Authorization": f"Basic {_encode(self._login)}"}
        reply = await self._send_once("GET", realm.copy_merge_params(wanted), signed)
        if reply.status in {_UNAUTHORIZED, _FORBIDDEN}:
            why = self.mask(f"{realm.host}: {reply.status} {_read_words(reply.body) or ''}".strip())
            raise _Ended(Denied(why, had_login=self._login is not None))
        token = _read_token(reply.body) if reply.status == _OK else None
        if token is None:
            raise _Ended(NotAnswered(f"{realm.host}, where one signs in to it, gave no token: {reply.status}"))
        self._secrets.append(token)
        return token

    async def _read_realm(self, challenge: Challenge) -> httpx2.URL:
        named = challenge.parameters.get("realm", "")
        try:
            realm = httpx2.URL(named)
        except httpx2.InvalidURL:
            realm = httpx2.URL("")
        if not self._place.may_lead_to(realm):
            raise _Ended(NotAnswered(f"{shorten(named) or 'nothing'} is no address over TLS at which to sign in"))
        if self._login is not None and self._place.is_plain and realm.host != self._place.url.host:
            # Anybody on the way could have written it.
            raise _Ended(NotAnswered(f"without TLS it names {realm.host} for signing in; no login is sent there"))
        await self._check_lead(realm)
        return realm

    async def _send(self, method: str, url: httpx2.URL) -> _Reply:
        """The answer of the registry, or of whom it leads to; what signs in stays with the registry."""
        for _ in range(REDIRECTS_AT_MOST + 1):
            headers = {"Accept": ", ".join(MANIFESTS)}
            if self._authorization is not None and self._place.owns(url):
                headers["Authorization"] = self._authorization
            reply = await self._send_once(method, url, headers)
            if reply.status not in _REDIRECTS or "location" not in reply.headers:
                return reply
            try:
                url = reply.url.join(reply.headers["location"])
            except httpx2.InvalidURL:
                raise _Ended(NotAnswered("it leads to an address that is none")) from None
            if not self._place.may_lead_to(url):
                raise _Ended(NotAnswered(f"it leads to {shorten(url.host) or 'nowhere'}, without TLS or at no port"))
            await self._check_lead(url)
        raise _Ended(NotAnswered(f"it leads on more than {REDIRECTS_AT_MOST} times"))

    async def _check_lead(self, url: httpx2.URL) -> None:
        refused = await self._leads.find_refused(url)
        if refused:
            raise _Ended(NotAnswered(shorten(refused)))

    async def _send_once(self, method: str, url: httpx2.URL, headers: dict[str, str]) -> _Reply:
        headers["Accept-Encoding"] = "identity"  # the digest is that of the bytes as they are
        async with self._client.stream(method, url, headers=headers, follow_redirects=False) as answer:
            body = await _read_body(answer)
            return _Reply(url, answer.status_code, answer.headers, body)


def shorten(text: str) -> str:
    """Words of a server in a line that stays readable."""
    return cut_middle(" ".join(text.split()), _WORDS_AT_MOST)


def _encode(login: RegistryLogin) -> str:
    return base64.b64encode(f"{login.username}:{login.password.reveal()}".encode()).decode("ascii")


async def _read_body(answer: httpx2.Response) -> bytes | None:
    body = bytearray()
    async for part in answer.aiter_raw():
        body += part
        if len(body) > BODY_AT_MOST:
            return None
    return bytes(body)


def _read_json(body: bytes | None) -> Any:  # noqa: ANN401 - whatever a server sent
    try:
        return json.loads(body or b"")
    except (ValueError, RecursionError):
        return None


def _read_words(body: bytes | None) -> str | None:
    """What a registry's error says; None where no registry wrote it."""
    match _read_json(body):
        case {"errors": [{"code": str(code), **rest}, *_]}:
            message = rest.get("message")
            return shorten(f"{code} {message}" if isinstance(message, str) else code)
        case {"details": str(details)}:  # the token server of Docker Hub
            return shorten(details)
    return None


def _read_token(body: bytes | None) -> str | None:
    match _read_json(body):
        case {"token": str(token)} | {"access_token": str(token)} if _TOKEN.fullmatch(token):
            return token
    return None
