"""The address of a git remote without what only its owner may know."""

import re
from typing import Final

_HELPER: Final = re.compile(r"(?P<name>[A-Za-z0-9][A-Za-z0-9+.-]*)::(?P<address>.*)", re.DOTALL)
_URL: Final = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<rest>.*)", re.DOTALL)
_HOST: Final = re.compile(r"(\[[0-9A-Fa-f:.%]+\]|[^:\[\]@?#]*)(:[0-9]*)?")
_AFTER_PATH: Final = re.compile(r"[?#]")
_LOCAL: Final = ("/", "./", "../", "~")
_WITH_USER: Final = frozenset({"ssh", "git+ssh", "ssh+git"})


def strip_credentials(remote: str) -> str:
    """A remote's address without password, token or query; the user name of an ssh address stays.

    What cannot be told apart from a credential goes too, and so does all that git would hand to a helper of its own.
    """
    remote = remote.strip()
    helper = _HELPER.fullmatch(remote)
    if helper is not None:
        address = helper["address"]
        return f"{helper['name']}::{strip_credentials(address) if _URL.fullmatch(address) else ''}"
    url = _URL.fullmatch(remote)
    return _strip_short(remote) if url is None else f"{url['scheme'].lower()}://{_strip_url(url)}"


def _strip_url(url: re.Match[str]) -> str:
    """What follows the scheme. Before the first slash, all up to an `@` is user and password, whatever it holds."""
    head, slash, path = url["rest"].partition("/")
    named, _, host = head.rpartition("@")
    if _HOST.fullmatch(_AFTER_PATH.split(host)[0]) is None:  # no host: a password with a slash in it, or worse
        return _AFTER_PATH.split(url["rest"].rpartition("@")[2])[0]
    user = named.split(":", 1)[0] if url["scheme"].lower() in _WITH_USER else ""
    return (f"{user}@" if user else "") + _AFTER_PATH.split(f"{host}{slash}{path}")[0]


def _strip_short(remote: str) -> str:
    """`USER:PASSWORD@HOST:PATH`, which ssh does not take and people write, without the password."""
    before, at, after = remote.rpartition("@")
    user, colon, rest = before.partition(":")
    if not at or not colon or "@" in user or remote.startswith(_LOCAL):
        return remote
    is_path = "/" in rest and ":" not in rest and ":" not in after  # HOST:TEAM/NAME@PART
    return remote if is_path else f"{user}@{after}"
