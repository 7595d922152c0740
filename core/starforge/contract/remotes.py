"""The address of a git remote without what only its owner may know."""

import re
from typing import Final
from urllib.parse import urlsplit

_SCP: Final = re.compile(r"(?:(?P<user>[^@/:]+)(?::[^@/]*)?@)?(?P<host>[^/:@]+):(?P<path>(?!//).*)")
_WITH_USER: Final = frozenset({"ssh", "git+ssh", "ssh+git"})


def strip_credentials(remote: str) -> str:
    """A remote's address without password, token or query; the user name of an ssh address stays."""
    if "://" not in remote:
        scp = _SCP.fullmatch(remote)
        if scp is None:
            return remote
        user = f"{scp['user']}@" if scp["user"] else ""
        return f"{user}{scp['host']}:{scp['path']}"
    try:
        parts = urlsplit(remote)
    except ValueError:  # a host in brackets that is no address: what may hold a secret goes, whatever it is
        scheme, _, rest = remote.partition("://")
        return f"{scheme}://{rest.rpartition('@')[2].partition('?')[0]}"
    named, _, host = parts.netloc.rpartition("@")
    user = named.split(":", 1)[0]
    keeps_user = user and parts.scheme in _WITH_USER
    return f"{parts.scheme}://{user + '@' if keeps_user else ''}{host}{parts.path}"
