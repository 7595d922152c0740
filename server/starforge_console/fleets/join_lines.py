"""The lines to paste on a machine that shall join: built from the console's public address alone. Pure."""

import hashlib
import shlex
from collections.abc import Mapping
from typing import Final
from urllib.parse import SplitResult, urlsplit

from starforge.contract.addresses import is_loopback

SCRIPT: Final = "install.sh"
_NAMES: Final = "FORGE_FLEET,FORGE_JOIN_TOKEN"


def build_join_lines(public_url: str, fleet: str, token: str) -> Mapping[str, str]:
    """The line by the tool that fetches the script, and the form for whoever is not root (`sudo`).

    The token stands in the environment and never in the arguments of a process. `wget -nv` says why when it fails.
    """
    script = shlex.quote(f"{public_url.rstrip('/')}/{SCRIPT}")
    given = f"FORGE_FLEET={shlex.quote(fleet)} FORGE_JOIN_TOKEN={shlex.quote(token)}"
    return {
        "curl": f"curl -fsSL {script} | {given} sh",
        "wget": f"wget -nv -O- {script} | {given} sh",
        "sudo": f"curl -fsSL {script} | {given} sudo --preserve-env={_NAMES} sh",
    }


def build_checked_line(public_url: str, fleet: str, token: str, script: str) -> str:
    """The line where the console's certificate is signed by a private CA, which the machine does not know yet.

    The download trusts nobody; its digest is compared before anything of it runs, and the script brings the CA along.
    """
    address = shlex.quote(f"{public_url.rstrip('/')}/{SCRIPT}")
    digest = hashlib.sha256(script.encode()).hexdigest()
    given = f"FORGE_FLEET={shlex.quote(fleet)} FORGE_JOIN_TOKEN={shlex.quote(token)}"
    return f"curl -fsSLk -o {SCRIPT} {address} && echo '{digest}  {SCRIPT}' | sha256sum -c - && {given} sh {SCRIPT}"


def find_doubt(public_url: str, listen: str, proxies: str = "") -> str:
    """Why other machines will not find the console at that address; empty when nothing speaks against it.

    `listen` is where it listens; `proxies`, when there are any, hand on what others ask.
    """
    public = urlsplit(public_url)
    if is_loopback(public.hostname or ""):
        return f"FORGE_PUBLIC_URL is {public_url}, which no other machine reaches: set it to the console's own address"
    listening = urlsplit(f"//{listen}")
    # Another port says that something else takes the calls and hands them on.
    if proxies or not is_loopback(listening.hostname or "") or _port_of(public) != listening.port:
        return ""
    return (
        f"FORGE_LISTEN is {listen}, which no other machine reaches, and FORGE_PUBLIC_URL names the same port:"
        f" set FORGE_LISTEN to 0.0.0.0:{listening.port}, or put a proxy before the console"
    )


def _port_of(address: SplitResult) -> int:
    return address.port or {"https": 443}.get(address.scheme, 80)
