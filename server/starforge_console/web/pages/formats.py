"""How pages write figures, times and texts that come from elsewhere."""

import json
import math
import time
from typing import Final

from markupsafe import Markup

_MINUTE_S: Final = 60
_HOUR_S: Final = 3600
_DAY_S: Final = 86400
_UNITS: Final = ("kB", "MB", "GB", "TB", "PB")
_THOUSAND: Final = 1000
_SMALL: Final = 1e-3
_LARGE: Final = 1e5
SPACE: Final = "\u00a0"
"""A no-break space: a figure and its unit stay together."""

_KEPT: Final = frozenset("\n\t")
_SIGNS: Final = (
    {code: chr(0x2400 + code) for code in range(0x20) if chr(code) not in _KEPT}
    | {0x7F: "\u2421"}
    | dict.fromkeys([*range(0x80, 0xA0), 0x061C, 0x200E, 0x200F, 0x2028, 0x2029], "\ufffd")
    | dict.fromkeys([*range(0x202A, 0x202F), *range(0x2066, 0x206A)], "\ufffd")
    | dict.fromkeys(range(0xD800, 0xE000), "\ufffd")
)


def clean(value: object) -> object:
    """`value` as it may stand on a page: in a text that is no markup, signs that reorder or hide become visible."""
    return value.translate(_SIGNS) if type(value) is str else value


def duration(seconds: float | None) -> str:
    """Two units at most: `41 s`, `12 m 44 s`, `3 h 12 m`, `2 d 5 h`; a dash where it is not known."""
    if seconds is None:
        return "—"
    whole = max(0, int(seconds))
    for unit_s, name, part_s, part_name in (
        (_DAY_S, "d", _HOUR_S, "h"),
        (_HOUR_S, "h", _MINUTE_S, "m"),
        (_MINUTE_S, "m", 1, "s"),
    ):
        if whole >= unit_s:
            part = whole % unit_s // part_s
            return f"{whole // unit_s}{SPACE}{name}{SPACE}{part:02}{SPACE}{part_name}"
    return f"{whole}{SPACE}s"


def age(seconds: float) -> str:
    """One unit: `41 s`, `12 m`, `3 h`, `2 d`."""
    whole = max(0, int(seconds))
    for unit_s, name in ((_DAY_S, "d"), (_HOUR_S, "h"), (_MINUTE_S, "m")):
        if whole >= unit_s:
            return f"{whole // unit_s}{SPACE}{name}"
    return f"{whole}{SPACE}s"


def size(count: float | None) -> str:
    """Bytes in the unit that gives the shortest figure; a dash where it is not known."""
    if count is None:
        return "—"
    if count < _THOUSAND:
        return f"{count:.0f}{SPACE}B"
    value = float(count)
    for unit in _UNITS:
        value /= _THOUSAND
        if value < _THOUSAND or unit == _UNITS[-1]:
            break
    return f"{value:.1f}{SPACE}{unit}"


def figure(value: float | str | None) -> str:
    """A reported value in a few digits; NaN and infinities by their names, a dash where there is none."""
    if value is None:
        return "—"
    number = float(value)
    if not math.isfinite(number):
        return {"nan": "NaN", "inf": "∞", "-inf": "-∞"}[str(number)]
    if number == 0 or _SMALL <= abs(number) < _LARGE:
        return f"{number:.4g}" if abs(number) < _THOUSAND else f"{number:,.0f}"
    return f"{number:.2e}"


def iso(at: float) -> str:
    """The moment for machines."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))


def moment(at: float | None, style: str = "full") -> Markup:
    """A `<time>` in UTC, which the page's script writes in the reader's zone; `style` is `full`, `day` or `clock`."""
    if at is None:
        return Markup("—")
    shape = {"full": "%Y-%m-%d %H:%M:%S", "day": "%Y-%m-%d", "clock": "%H:%M:%S"}[style]
    utc = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(at))
    text = time.strftime(shape, time.gmtime(at))
    return Markup('<time datetime="{}" data-style="{}" title="{}">{}</time>').format(iso(at), style, utc, text)


def ago(at: float) -> Markup:
    """A `<time>` that says how long ago it was; the page's script counts it further."""
    utc = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(at))
    text = age(time.time() - at)
    return Markup('<time datetime="{}" data-style="ago" title="{}">{}</time>').format(iso(at), utc, text)


def since(at: float) -> Markup:
    """A duration that runs on: the page's script counts it further."""
    return Markup('<span data-since="{}">{}</span>').format(f"{at:.0f}", duration(time.time() - at))


def short_digest(digest: str) -> str:
    """A digest that is told apart by its beginning and its end."""
    kind, _, rest = digest.partition(":")
    return f"{kind}:{rest[:8]}…{rest[-4:]}" if rest else digest


def as_json(value: object) -> str:
    """A hyperparameter as it stands in a document."""
    return json.dumps(value, ensure_ascii=False)
