"""How pages write figures, times and texts that come from elsewhere."""

import json
import math
import time
from typing import Final

from jinja2 import pass_context
from jinja2.runtime import Context
from markupsafe import Markup

from starforge.logtext import clean
from starforge.wording import TIME_UNITS, describe_bytes, is_in_calendar, split_duration
from starforge_console.web.i18n.words import Words

_THOUSAND: Final = 1000
_SMALL: Final = 1e-3
_LARGE: Final = 1e5
_UNITS: Final = {"_percent": "%", "_celsius": "°C", "_w": "W"}
SPACE: Final = "\u00a0"
"""A no-break space: a figure and its unit stay together."""


def clean_value(value: object) -> object:
    """`value` as it may stand on a page: in a text that is no markup, signs that reorder or hide become visible."""
    return clean(value) if type(value) is str else value


@pass_context
def duration(context: Context, seconds: float | None) -> str:
    """Two units at most, in the reader's language; a dash where it is not known."""
    return "—" if seconds is None else write_time(context["t"], seconds)


def write_time(words: Words, seconds: float, units: int = 2) -> str:
    """`seconds` in at most so many units, as `starforge.wording` divides them, in the language of `words`."""
    parts = split_duration(seconds, units)
    return SPACE.join(f"{count}{SPACE}{words.text(f'unit.{unit}')}" for count, unit in parts)


def units_of(words: Words) -> str:
    """The units of a length of time in the language of `words`, largest first, for the page's script."""
    return " ".join(words.text(f"unit.{unit}") for unit, _ in TIME_UNITS)


def size(count: float | None) -> str:
    """Bytes in the unit that suits them; a dash where it is not known."""
    return "—" if count is None else describe_bytes(count).replace(" ", SPACE)


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


def reading(value: float | str | None, key: str) -> str:
    """The value of a metric in the unit that its key ends with, where it ends with one."""
    text, number = figure(value), None if value is None else float(value)
    if number is None or not math.isfinite(number):
        return text
    if key.endswith(("_bytes", "_bytes_per_s")):
        return size(number) + ("/s" if key.endswith("_per_s") else "")
    unit = next((sign for end, sign in _UNITS.items() if key.endswith(end)), "")
    return f"{text}{SPACE}{unit}" if unit else text


def iso(at: float) -> str:
    """The moment for machines."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))


def moment(at: float | None, style: str = "full") -> Markup:
    """A `<time>` in UTC, which the page's script writes in the reader's zone; `style` is `full`, `day` or `clock`.

    A dash where it is not known, or a job told a time that is in no calendar.
    """
    if at is None or not is_in_calendar(at):
        return Markup("—")
    shape = {"full": "%Y-%m-%d %H:%M:%S", "day": "%Y-%m-%d", "clock": "%H:%M:%S"}[style]
    utc = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(at))
    text = time.strftime(shape, time.gmtime(at))
    return Markup('<time datetime="{}" data-style="{}" title="{}">{}</time>').format(iso(at), style, utc, text)


@pass_context
def ago(context: Context, at: float) -> Markup:
    """A `<time>` that says how long ago it was; the page's script counts it further."""
    utc = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(at))
    text = write_time(context["t"], time.time() - at, units=1)
    return Markup('<time datetime="{}" data-style="ago" title="{}">{}</time>').format(iso(at), utc, text)


@pass_context
def since(context: Context, at: float) -> Markup:
    """A duration that runs on: the page's script counts it further."""
    return Markup('<span data-since="{}">{}</span>').format(f"{at:.0f}", write_time(context["t"], time.time() - at))


def short_digest(digest: str) -> str:
    """A digest that is told apart by its beginning and its end."""
    kind, _, rest = digest.partition(":")
    return f"{kind}:{rest[:8]}…{rest[-4:]}" if rest else digest


def as_json(value: object) -> str:
    """A hyperparameter as it stands in a document."""
    return json.dumps(value, ensure_ascii=False)


def as_json_lines(value: object) -> str:
    """A whole document, to be read and copied."""
    return json.dumps(value, ensure_ascii=False, indent=2)
