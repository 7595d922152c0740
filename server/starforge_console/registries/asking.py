"""Asks registries of images which content a tag means now, for admission: within a time limit, and not twice at once.

What a registry says is kept for seconds, because submissions come in bursts that name the same image; that a registry
does not answer is kept longer, so that not each of them waits for it.
"""

import asyncio
from typing import Final, Protocol, TypeVar

import httpx2
import structlog

from starforge.contract.launch import RegistryLogin
from starforge.errors import StarForgeError
from starforge.trust.authorities import Authorities
from starforge.trust.resolving import resolve
from starforge_console.clock import Clock
from starforge_console.domain.images import (
    Denied,
    ImageAnswer,
    ImageQuestion,
    NotAnswered,
    Resolved,
    find_question,
    is_hub,
)
from starforge_console.registries.conversation import Conversation, shorten
from starforge_console.registries.leads import Leads, Resolve
from starforge_console.registries.places import Place, build_place
from starforge_console.settings.registries import RegistrySettings

KEPT_S: Final = 10.0
"""How long a digest is good."""
SILENCE_KEPT_S: Final = 60.0
"""How long a registry that did not answer is asked nothing."""
_KEPT_AT_MOST: Final = 1000
_AT_ONCE: Final = 200
_OF_ONE_AT_ONCE: Final = 50
"""One registry that does not answer leaves room for questions to the others."""

_log = structlog.get_logger("registries")

_KeyT = TypeVar("_KeyT")
_ValueT = TypeVar("_ValueT")


class LoginSource(Protocol):
    """Who keeps how the console signs in to registries."""

    async def find_login(self, registry: str) -> RegistryLogin | None:
        """The login for `registry`, or None. Raises StarForgeError where it is kept and cannot be opened."""

    def has_login(self, registry: str) -> bool:
        """Whether one is kept."""


class Registries:
    """All registries, each asked as the account that an administrator gave the console there, else as nobody."""

    def __init__(
        self, settings: RegistrySettings, logins: LoginSource, clock: Clock, resolve: Resolve = resolve
    ) -> None:
        self._settings = settings
        self._resolve = resolve
        self._logins = logins
        self._clock = clock
        self._plain_http = settings.plain_http
        self._kept: dict[ImageQuestion, tuple[float, Resolved]] = {}
        self._silent: dict[str, tuple[float, NotAnswered]] = {}
        self._asking: dict[ImageQuestion, asyncio.Task[ImageAnswer]] = {}
        self._authorities = Authorities()

    def is_asked(self, registry: str) -> bool:
        """Whether the registry is asked at all: the one of names without a registry only where somebody wished it."""
        if self._settings.image_resolve == "off":
            return False
        return not is_hub(registry) or self._settings.image_ask_docker_hub or self._logins.has_login(registry)

    async def ask(self, image: str) -> ImageAnswer | None:
        """What the image's registry says of it, within the time limit; None where nobody is asked."""
        question = find_question(image)
        if question is None or not self.is_asked(question.registry):
            return None
        known = self._find_known(question)
        if known is not None:
            return known
        asking = self._asking.get(question)
        of_one = sum(one.registry == question.registry for one in self._asking)
        if asking is None and (len(self._asking) >= _AT_ONCE or of_one >= _OF_ONE_AT_ONCE):
            return NotAnswered(f"{of_one} other questions to it are under way, {len(self._asking)} in all")
        if asking is None:
            asking = self._asking[question] = asyncio.create_task(self._ask_now(question))
            asking.add_done_callback(lambda _: self._asking.pop(question, None))
        return await asyncio.shield(asking)

    async def find_login(self, image: str) -> RegistryLogin | None:
        """What an engine signs in with to fetch `image`, if anything. Raises StarForgeError as `LoginSource` does."""
        question = find_question(image)
        return None if question is None else await self._logins.find_login(question.registry)

    def forget(self, registry: str) -> None:
        """Ask the registry anew: its login is another one now."""
        self._silent.pop(registry, None)
        for question in [one for one in self._kept if one.registry == registry]:
            del self._kept[question]

    def _find_known(self, question: ImageQuestion) -> ImageAnswer | None:
        now = self._clock.monotonic()
        until, resolved = self._kept.get(question, (now, None))
        if resolved is not None and now < until:
            return resolved
        until, silence = self._silent.get(question.registry, (now, None))
        return silence if silence is not None and now < until else None

    async def _ask_now(self, question: ImageQuestion) -> ImageAnswer:
        place = build_place(question.registry, self._plain_http)
        if place is None:
            return NotAnswered(f"{question.registry} is no address")
        try:
            login = await self._logins.find_login(question.registry)
        except StarForgeError as error:
            return NotAnswered(f"the console's login for it cannot be used: {error}")
        answer = await self._converse(place, login, question)
        if login is not None and isinstance(answer, Denied) and answer.had_login:
            _log.warning(
                "a registry refuses an image to the console's login",
                registry=question.registry,
                username=login.username,
                image=str(question),
                why=answer.why,
            )
        self._keep(question, answer)
        return answer

    async def _converse(self, place: Place, login: RegistryLogin | None, question: ImageQuestion) -> ImageAnswer:
        timeout_s, conversation = self._settings.image_timeout_s, None
        try:
            async with (
                asyncio.timeout(timeout_s),
                httpx2.AsyncClient(
                    timeout=timeout_s, verify=await self._authorities.load(), trust_env=not place.is_local
                ) as client,
            ):
                leads = Leads(place.url, self._settings.led_to, self._resolve)
                conversation = Conversation(client, place, leads, login)
                return await conversation.ask(question)
        except (TimeoutError, httpx2.TimeoutException):
            why = f"no answer within {timeout_s:g} s"
        except httpx2.ProxyError as error:
            why = f"the proxy says: {shorten(str(error))}"
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            why = shorten(str(error)) or type(error).__name__
        return NotAnswered(conversation.mask(why) if conversation is not None else why, is_general=True)

    def _keep(self, question: ImageQuestion, answer: ImageAnswer) -> None:
        """Neither a refusal nor an absence is kept: whoever mends it submits again at once."""
        now = self._clock.monotonic()
        if isinstance(answer, Resolved):
            _put(self._kept, question, (now + KEPT_S, answer))
        elif isinstance(answer, NotAnswered) and answer.is_general:
            _put(self._silent, question.registry, (now + SILENCE_KEPT_S, answer))


def _put(kept: dict[_KeyT, _ValueT], key: _KeyT, value: _ValueT) -> None:
    if len(kept) >= _KEPT_AT_MOST:
        kept.clear()
    kept[key] = value
