"""One POST to a webhook: signed, to an address that may be called and no other, bounded in time, redirected nowhere."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit, urlunsplit

import httpx2

import starforge
from starforge.contract.launch import Secret
from starforge.contract.webhooks import HEADER_DELIVERY, HEADER_SIGNATURE, HEADER_TIMESTAMP, WebhookMessage, sign
from starforge.trust.authorities import Authorities
from starforge.trust.resolving import resolve
from starforge.wording import cut_middle
from starforge_console.accounts.vault import Vault
from starforge_console.clock import Clock
from starforge_console.domain.reachable import Address, find_refused, parse_target
from starforge_console.ledger.database import Database
from starforge_console.settings.webhooks import WebhookSettings
from starforge_console.wakeups import Wakeups

_WORDS: Final = 200
_SUCCESSES: Final = range(200, 300)
_PRODUCT: Final = f"StarForge/{starforge.__version__}"


@dataclass(frozen=True, slots=True)
class Answered:
    """What came of a POST. `status` is None where nobody answered; `error` is empty for a success."""

    status: int | None
    error: str

    @property
    def is_success(self) -> bool:
        """Whether it was taken."""
        return not self.error


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookParts:
    """What webhooks are built on."""

    ledger: Database
    vault: Vault
    sender: "Sender"
    clock: Clock
    wakeups: Wakeups


class Sender:
    """Sends messages; knows no webhooks."""

    def __init__(
        self,
        settings: WebhookSettings,
        clock: Clock,
        resolve: Callable[[str, int], Awaitable[Sequence[Address]]] = resolve,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._resolve = resolve
        self._authorities = Authorities()

    async def send(self, url: str, secret: Secret, message: WebhookMessage) -> Answered:
        """POST the message once. Whatever comes of it is an answer; nothing is raised."""
        try:
            async with asyncio.timeout(self._settings.webhook_timeout_s):
                return await self._post(url, secret, message)
        except TimeoutError:
            return Answered(None, f"no answer within {self._settings.webhook_timeout_s:g} s")
        except (OSError, httpx2.HTTPError, httpx2.InvalidURL, UnicodeError) as error:
            return Answered(None, cut_middle(str(error) or type(error).__name__, _WORDS))

    async def find_refused(self, url: str) -> str:
        """Why the address may not be called as far as it can be told now; empty where nothing speaks against it."""
        host, port = parse_target(url)
        try:
            async with asyncio.timeout(self._settings.webhook_timeout_s):
                addresses = await self._resolve(host, port)
        except (TimeoutError, OSError, UnicodeError):
            return ""  # each delivery looks again, and its error is shown
        return self._explain(host, addresses)

    async def _post(self, url: str, secret: Secret, message: WebhookMessage) -> Answered:
        host, port = parse_target(url)
        addresses = await self._resolve(host, port)
        refused = self._explain(host, addresses)
        if refused:
            return Answered(None, refused)
        body, now = message.model_dump_json().encode(), int(self._clock.now())
        headers = {
            "Host": urlsplit(url).netloc,
            "Content-Type": "application/json",
            "User-Agent": _PRODUCT,
            HEADER_DELIVERY: message.id,
            HEADER_TIMESTAMP: str(now),
            HEADER_SIGNATURE: sign(secret, now, body),
        }
        # A proxy would resolve the name anew, and so would a second look: the very addresses that were checked are
        # called. The certificate must be the name's.
        pinned = [_pin(url, address, port) for address in addresses]
        requests = [
            httpx2.Request("POST", one, content=body, headers=headers, extensions={"sni_hostname": host})
            for one in pinned
        ]
        status = await self._post_first(requests)
        return Answered(status, "" if status in _SUCCESSES else f"answered with the status {status}")

    async def _post_first(self, requests: Sequence[httpx2.Request]) -> int:
        """The status from the first place that a connection leads to; one that was sent is not sent elsewhere."""
        verify = await self._authorities.load()
        async with httpx2.AsyncClient(verify=verify, trust_env=False, follow_redirects=False, timeout=None) as client:
            for request in requests[:-1]:
                with contextlib.suppress(httpx2.ConnectError):
                    return await _post_once(client, request)
            return await _post_once(client, requests[-1])

    def _explain(self, host: str, addresses: Sequence[Address]) -> str:
        refused = find_refused(addresses, self._settings.allowed)
        if refused is None:
            return ""
        named = host if host == str(refused) else f"{host} is {refused}, which"
        return f"{named} is not public: an administrator can allow it (FORGE_WEBHOOK_ALLOW)"


async def _post_once(client: httpx2.AsyncClient, request: httpx2.Request) -> int:
    answer = await client.send(request, stream=True)  # what it says beside its status is not read
    await answer.aclose()
    return answer.status_code


def _pin(url: str, address: Address, port: int) -> str:
    parts = urlsplit(url)
    host = f"[{address}]" if address.version == 6 else str(address)  # noqa: PLR2004 - of the internet protocol
    return urlunsplit((parts.scheme, f"{host}:{port}", parts.path or "/", parts.query, ""))
