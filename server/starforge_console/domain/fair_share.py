"""Fair share: the GPU time that users and teams have had of late; who had less of it comes first. Pure.

What was used counts half after each half-life, so that nobody pays for ever, and nobody who waits loses by waiting.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

HALF_LIFE_S: Final = 7 * 86_400.0
_DECAY_PER_S: Final = math.log(2) / HALF_LIFE_S


class Use(NamedTuple):
    """GPU-seconds, as they counted at `at` (Unix seconds)."""

    gpu_s: float = 0.0
    at: float = 0.0


class Share(NamedTuple):
    """What a user's team and the user have used, in GPU-seconds that count now; a user without a team is one."""

    team_gpu_s: float = 0.0
    user_gpu_s: float = 0.0


class Held(NamedTuple):
    """So many GPUs that a user has held since `since`, and still holds."""

    user_id: int
    gpus: int
    since: float


NO_SHARE: Final = Share()


def decay(use: Use, now: float) -> Use:
    """The same use as it counts at `now`. A clock that was set back makes nothing more of it."""
    return Use(use.gpu_s * math.exp(-_DECAY_PER_S * max(0.0, now - use.at)), max(now, use.at))


def add_span(use: Use, gpus: int, since: float, until: float) -> Use:
    """`use` and what `gpus` GPUs from `since` to `until` add to it, as it counts at `until` or its own later time."""
    before = decay(use, until)
    span = Use(gpus * (1.0 - math.exp(-_DECAY_PER_S * max(0.0, until - since))) / _DECAY_PER_S, until)
    return Use(before.gpu_s + decay(span, before.at).gpu_s, before.at)


def build_shares(
    used: Mapping[int, Use], held: Iterable[Held], teams: Mapping[int, str | None], now: float
) -> dict[int, Share]:
    """The share of each user (by id) who has used anything: `used` of what has ended, `held` of what has not."""
    own = {user: decay(use, now).gpu_s for user, use in used.items()}
    for one in held:
        own[one.user_id] = own.get(one.user_id, 0.0) + add_span(Use(), one.gpus, one.since, now).gpu_s
    by_team: dict[str, float] = {}
    for user, gpu_s in own.items():
        team = teams.get(user)
        if team is not None:
            by_team[team] = by_team.get(team, 0.0) + gpu_s
    members = {user for user, team in teams.items() if team in by_team}
    return {user: _share_of(user, own, by_team, teams) for user in own.keys() | members}


def _share_of(
    user: int, own: Mapping[int, float], by_team: Mapping[str, float], teams: Mapping[int, str | None]
) -> Share:
    gpu_s, team = own.get(user, 0.0), teams.get(user)
    return Share(gpu_s if team is None else by_team[team], gpu_s)
