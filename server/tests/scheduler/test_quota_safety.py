"""Whatever fails, in whatever order: no start ever leads over a quota, and everything still comes to its end."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule
from sqlalchemy import select

from server.tests.scheduler.test_safety import AnyOrder
from starforge.contract.states import HOLDS_A_PLACE
from starforge_console.domain.gpu_hours import DAY_S, HOUR_S, Span, measure_all
from starforge_console.domain.quota import GIB, Holder
from starforge_console.ledger.quotas import change_parts, list_held
from starforge_console.ledger.statements import list_all
from starforge_console.ledger.stored import Store, note_stored
from starforge_console.ledger.tables import attempts

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


class UnderHours(AnyOrder):
    """The same, with a limit of hours, and with time that passes in hours."""

    def __init__(self) -> None:
        super().__init__()
        self.do(self.site.ledger.write(lambda c: change_parts(c, Holder("user", "ada"), {"gpu_hours": 1})))

    @rule(hours=st.sampled_from([0.5, 2.0, 9.0, 23.0]))
    def hours_pass(self, hours: float) -> None:
        self.site.clock.at += hours * HOUR_S

    def teardown(self) -> None:
        """All comes to its end as soon as the hours allow it, which is days later: here once nothing limits them."""
        self.do(self.site.ledger.write(lambda c: change_parts(c, Holder("user", "ada"), {"gpu_hours": None})))
        super().teardown()

    @invariant()
    def nothing_was_started_while_the_hours_of_the_day_before_were_used(self) -> None:
        begins, ends = attempts.c.dequeued_at, attempts.c.ended_at
        rows = self.do(self.site.ledger.read(lambda c: c.execute(select(begins, ends)).all()))
        for at, _ in rows:
            before = [Span(1, "", 1, since, until) for since, until in rows if since < at]
            assert measure_all(before, at) < HOUR_S

    @invariant()
    def the_statement_names_what_was_held_and_for_how_long(self) -> None:
        now = self.site.clock.now()
        (line,) = self.do(self.site.ledger.read(lambda c: list_all(c, now)))
        held = self.do(self.site.ledger.read(list_held))
        assert (line.gpus, line.jobs) == (sum(gpus for _, _, gpus in held), len(held))
        begins, ends = attempts.c.dequeued_at, attempts.c.ended_at
        rows = self.do(self.site.ledger.read(lambda c: c.execute(select(begins, ends)).all()))
        most = sum(max(0.0, min(until or now, now) - max(since, now - DAY_S)) for since, until in rows)
        assert line.gpu_s <= most + 36 * len(line.runs), "what ended earlier than it was noticed is given back"


UnderHours.TestCase.settings = settings(AnyOrder.TestCase.settings, max_examples=20)
TestHoursInAnyOrder = UnderHours.TestCase


class UnderStorage(AnyOrder):
    """The same, with a limit of storage, which fills and is freed in between."""

    def __init__(self) -> None:
        super().__init__()
        self.stored: dict[str, int] = {}
        self.begun: set[str] = set()
        self.do(self.site.ledger.write(lambda c: change_parts(c, Holder("user", "ada"), {"storage_gib": 2})))

    @rule(choice=st.integers(0, 3), gib=st.sampled_from([0, 0, 1, 2, 3]))
    def is_measured(self, choice: int, gib: int) -> None:
        if choice >= len(self.submitted):
            return
        job = self.submitted[choice]
        self.do(self.site.ledger.write(lambda c: note_stored(c, job, {(Store.CHECKPOINTS, 1): gib * GIB})))
        self.stored[job] = gib

    def teardown(self) -> None:
        """All comes to its end once nothing is full."""
        self.do(self.site.ledger.write(lambda c: change_parts(c, Holder("user", "ada"), {"storage_gib": None})))
        super().teardown()

    @invariant()
    def nothing_was_started_while_the_storage_was_full(self) -> None:
        begun = set(self.do(self.site.ledger.read(lambda c: c.execute(select(attempts.c.id)).scalars().all())))
        assert begun == self.begun or sum(self.stored.values()) < 2
        self.begun = begun

    @invariant()
    def the_statement_names_what_holds_it(self) -> None:
        (line,) = self.do(self.site.ledger.read(lambda c: list_all(c, self.site.clock.now())))
        assert {run.job: run.bytes for run in line.runs if run.bytes} == {
            job: gib * GIB for job, gib in self.stored.items() if gib
        }


UnderStorage.TestCase.settings = settings(AnyOrder.TestCase.settings, max_examples=20)
TestStorageInAnyOrder = UnderStorage.TestCase
