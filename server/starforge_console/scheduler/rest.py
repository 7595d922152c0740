"""Rest: a pass that finds all as the one before left it has nothing to decide."""

import math
from collections.abc import Callable, Sequence
from typing import Final

from starforge_console.domain.inputs import JobInputs
from starforge_console.domain.opening import Windows
from starforge_console.domain.schedule import Snapshot
from starforge_console.domain.waiting import WaitReason
from starforge_console.ledger.maintenance import Maintenance

RESTS_AT_MOST_S: Final = 60.0
"""Then all is decided anew: what jobs wait for is to name the windows that have closed meanwhile."""

Basis = tuple[object, ...]
"""All that a pass decides by, but for the time."""


def build_basis(
    snapshot: Snapshot,
    windows: Windows,
    maintenance: Maintenance | None,
    explain_inputs: Callable[[JobInputs], Sequence[WaitReason]],
) -> Basis:
    """What the pass over `snapshot` decides by; equal ones decide alike until a window opens."""
    inputs = {id(job.inputs): job.inputs for job in snapshot.queued if job.inputs}
    machines = (snapshot.views, snapshot.place, snapshot.releases, snapshot.faulty)
    people = (snapshot.shares, snapshot.usage, windows, maintenance)
    return (snapshot.queued, machines, people, [tuple(explain_inputs(one)) for one in inputs.values()])


class Rest:
    """Lasts from a pass that changed nothing until something else does, or a window opens."""

    def __init__(self) -> None:
        self._basis: Basis = ()
        self._since = math.inf
        self.opens_at: float | None = None
        """When the next window opens for one of the jobs (Unix seconds)."""

    def begin(self, basis: Basis, now: float, opens_at: float | None) -> None:
        """Rest on `basis` from `now` on."""
        self._basis, self._since, self.opens_at = basis, now, opens_at

    def lasts(self, basis: Basis, now: float) -> bool:
        """Whether a pass on `basis` would change nothing; one after the clock was set back may."""
        until = min(self._since + RESTS_AT_MOST_S, math.inf if self.opens_at is None else self.opens_at)
        return self._since <= now < until and basis == self._basis
