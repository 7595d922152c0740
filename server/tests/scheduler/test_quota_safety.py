"""Whatever fails, in whatever order: no start ever leads over a quota, and everything still comes to its end."""

from hypothesis import settings
from hypothesis.stateful import invariant

from server.tests.scheduler.test_safety import AnyOrder
from starforge.contract.states import HOLDS_A_PLACE
from starforge_console.domain.quota import Holder
from starforge_console.ledger.quotas import change_parts, list_held

GPUS_AT_ONCE = 2
"""Of the three that the machines have; each job asks for one."""


class UnderQuota(AnyOrder):
    """The same console and the same faults, with a limit for the one user."""

    def __init__(self) -> None:
        super().__init__()
        self.do(self.site.ledger.write(lambda c: change_parts(c, Holder("user", "ada"), {"gpus": GPUS_AT_ONCE})))

    @invariant()
    def no_more_is_held_than_the_quota_allows(self) -> None:
        held = self.do(self.site.ledger.read(list_held))
        assert sum(gpus for _, _, gpus in held) <= GPUS_AT_ONCE
        in_flight = {attempt for _, state, _, attempt, _ in self.do(self._table()) if state in HOLDS_A_PLACE}
        assert len(set(self.fleet.living()) | in_flight) <= GPUS_AT_ONCE


UnderQuota.TestCase.settings = settings(AnyOrder.TestCase.settings, max_examples=20)
TestQuotasInAnyOrder = UnderQuota.TestCase
