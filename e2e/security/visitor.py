"""A browser without a screen and without scripts: cookies, redirects, and forms with the key of their page."""

import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http.cookiejar import CookieJar
from typing import Final

from starforge_console.web.pages.visit import SESSION_COOKIE

_ANSWER_S: Final = 30.0
_KEY: Final = re.compile(r'name="form_key" value="([0-9a-f]{64})"')

Field = str | Sequence[str]


@dataclass(frozen=True, slots=True)
class Page:
    """What the browser shows, and under which address."""

    status: int
    url: str
    text: str

    @property
    def path(self) -> str:
        return urllib.parse.urlsplit(self.url).path

    @property
    def form_key(self) -> str:
        """The key that its forms carry. Raises AssertionError where it has none."""
        found = _KEY.search(self.text)
        assert found is not None, self
        return found[1]


class Visitor:
    """One browser at the site `url`."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._jar = CookieJar()
        self._opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(self._jar))

    @property
    def session(self) -> str:
        """The text of its session; empty without one."""
        return next((one.value or "" for one in self._jar if one.name == SESSION_COOKIE), "")

    def open(self, path: str) -> Page:
        """Go to an address of the site, or to another site's."""
        return self._send(urllib.request.Request(urllib.parse.urljoin(self._url, path)))  # noqa: S310 - loopback

    def send(self, page: Page, path: str, fields: Mapping[str, Field]) -> Page:
        """Send a form that stands on `page`."""
        body = urllib.parse.urlencode({"form_key": page.form_key, **fields}, doseq=True).encode()
        return self._send(urllib.request.Request(urllib.parse.urljoin(self._url, path), body))  # noqa: S310 - loopback

    def sign_in(self, token: str) -> Page:
        """Sign in with a personal token."""
        return self.send(self.open("/signin"), "/signin", {"token": token})

    def _send(self, request: urllib.request.Request) -> Page:
        try:
            with self._opener.open(request, timeout=_ANSWER_S) as answer:
                return Page(answer.status, answer.url, answer.read().decode(errors="replace"))
        except urllib.error.HTTPError as refusal:
            with refusal:
                return Page(refusal.code, refusal.url, refusal.read().decode(errors="replace"))
