"""GPU-hours of the last 24 hours: what GPUs were held, and when enough of it lies further back. Pure.

The day is the 24 hours before the moment that is asked about, in every zone the same: nothing comes back at midnight,
and every hour that was used comes back a day later.
"""

from collections.abc import Collection
from typing import Final, NamedTuple

DAY_S: Final = 86_400.0
HOUR_S: Final = 3600.0


class Span(NamedTuple):
    """GPUs that an attempt of a job held from `since` until `until`, or, where that is None, still holds.

    Both are Unix seconds.
    """

    user_id: int
    job: str
    gpus: int
    since: float
    until: float | None = None


def measure(span: Span, now: float) -> float:
    """The GPU-seconds of the span that lie in the 24 hours before `now`; what is still held is held until then."""
    end = now if span.until is None else min(span.until, now)
    return span.gpus * max(0.0, end - max(span.since, now - DAY_S))


def measure_all(spans: Collection[Span], now: float) -> float:
    """The GPU-seconds of all of them."""
    return sum(measure(span, now) for span in spans)


def find_room_at(spans: Collection[Span], most_s: float, now: float) -> float | None:
    """After which moment less than `most_s` GPU-seconds are used, if nothing starts and what is held stays held.

    `now` where that is so already; None where it never is before something that runs has ended.
    """
    used, at = measure_all(spans, now), now
    if used < most_s:
        return now
    slope, turns = _list_turns(spans, now)
    for turn, change in turns:
        then = used + slope * (turn - at)
        if then < most_s:
            return at + (used - most_s) / -slope
        used, at, slope = then, turn, slope + change
    return None


def _list_turns(spans: Collection[Span], now: float) -> tuple[int, list[tuple[float, int]]]:
    """How the use changes each second from `now` on, and at which moments that changes, by how much.

    It rises with what is held, and falls with what was held a day earlier.
    """
    slope, turns = 0, [(now + DAY_S, 0)]
    for span in spans:
        begins, ends = min(span.since, now) + DAY_S, None if span.until is None else min(span.until, now) + DAY_S
        if ends is not None and ends <= now:
            continue
        slope += span.gpus if ends is None else 0
        if begins <= now:
            slope -= span.gpus
        else:
            turns.append((begins, -span.gpus))
        if ends is not None:
            turns.append((ends, span.gpus))
    return slope, sorted(turns)
