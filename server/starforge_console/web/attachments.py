"""The headers of what a browser is to keep and never to show: jobs write it, names included. Pure."""

import re
from typing import Final
from urllib.parse import quote

_PLAIN: Final = re.compile(r"[^A-Za-z0-9._-]")
_LONGEST: Final = 120


def build_attachment(name: str) -> dict[str, str]:
    """The headers of a file that is to be kept as `name`, whatever it holds."""
    plain = _PLAIN.sub("_", name)[-_LONGEST:] or "file"
    whole = "" if plain == name else f"; filename*=UTF-8''{quote(name, safe='')}"
    return {
        "Content-Disposition": f'attachment; filename="{plain}"{whole}',
        "Content-Security-Policy": "default-src 'none'; sandbox",
        "Cache-Control": "no-store",
        "X-Content-Type-Options": "nosniff",
    }
