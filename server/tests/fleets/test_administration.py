"""What administrators do to nodes reaches jobs, tokens and the machines themselves."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from server.tests.fleets.machines import Machine
from server.tests.fleets.yard import Yard, open_yard
from server.tests.ledger.builders import apply
from starforge.contract.ids import AttemptId
from starforge.contract.launch import Network
from starforge.contract.observation import Phase
from starforge.contract.registration import Fenced
from starforge.contract.states import JobState, Reason
from starforge.errors import Conflict, InputError, NotFound, Unavailable
from starforge_console.domain.nodes import NodeState
from starforge_console.executors.fake import FakeExecutor
from starforge_console.executors.scripting import FakeNode
from starforge_console.fleets.served import ServedFleets, build_fleet
from starforge_console.ledger.endings import list_unclean, list_unclean_of, note_finalised
from starforge_console.ledger.reports import find_grant
from starforge_console.ledger.views import load_job
from starforge_console.wakeups import NODES

Test = Callable[[Yard], Awaitable[None]]
UNKNOWN = AttemptId("j2k7abcdef-1-abcdef")


def run(root: Path, test: Test) -> None:
    """Run a test in an event loop, with a console of its own."""

    async def _run() -> None:
        async with open_yard(root) as yard:
            await test(yard)

    asyncio.run(_run())


@pytest.mark.parametrize("reasons", [(), (Reason.LAUNCHED,), (Reason.LAUNCHED, Reason.STARTED)])
def test_marking_a_node_lost_fails_its_jobs_ends_their_tokens_and_has_them_retried_for_free(
    tmp_path: Path, reasons: tuple[Reason, ...]
) -> None:
    async def test(yard: Yard) -> None:
        await yard.add_machine()
        await yard.add_machine(Machine(hostname="other"))
        here, elsewhere = await yard.place("gpu7"), await yard.place("other")
        for reason in reasons:
            await yard.ledger.write(lambda c, reason=reason: apply(c, here.id, reason))  # type: ignore[misc]
        before = await yard.ledger.read(lambda c: find_grant(c, here.attempt.id))
        assert before is not None
        assert before.expires_at > yard.clock.at
        lost = await yard.administration.mark_lost("gpu7", "gpu7")
        assert lost.jobs == (here.id,)
        job = await yard.ledger.read(lambda c: load_job(c, here.id))
        assert (job.state, job.reason) == (JobState.FAILED.value, Reason.NODE_LOST.value)
        assert job.retry_at is not None
        after = await yard.ledger.read(lambda c: find_grant(c, here.attempt.id))
        assert after is not None
        assert after.expires_at <= yard.clock.at
        other = await yard.ledger.read(lambda c: load_job(c, elsewhere.id))
        assert other.state == JobState.SUBMITTED.value
        assert [node.standing for node in yard.directory.nodes("gpu")] == [NodeState.LOST, NodeState.ACTIVE]

    run(tmp_path, test)


def test_a_daemon_that_comes_back_removes_what_was_lost_even_untold_and_keeps_what_had_ended_before(
    tmp_path: Path,
) -> None:
    async def test(yard: Yard) -> None:
        machine = await yard.add_machine()
        ended, lost = await yard.place("gpu7"), await yard.place("gpu7")
        path = (Reason.LAUNCHED, Reason.STARTED, Reason.EXITED_ZERO)
        await yard.ledger.write(lambda c: apply(c, ended.id, *path))
        await yard.administration.mark_lost("gpu7", "gpu7")
        machine.attempts = {ended.attempt.id: "EXITED"}
        assert await machine.beat(yard.registration) == Fenced(fence=1, remove=(lost.attempt.id,))

    run(tmp_path, test)


def test_a_node_is_marked_lost_only_by_its_name_said_twice(tmp_path: Path) -> None:
    async def test(yard: Yard) -> None:
        await yard.add_machine()
        for confirm in ("", "gpu", "GPU7"):
            with pytest.raises(InputError, match="not marked lost"):
                await yard.administration.mark_lost("gpu7", confirm)
        row = yard.directory.find_row("gpu7")
        assert row is not None
        assert (row.state, row.fence) == (NodeState.ACTIVE, 0)
        with pytest.raises(NotFound):
            await yard.administration.mark_lost("nobody", "nobody")

    run(tmp_path, test)


def test_a_machine_of_another_fleet_with_the_same_name_is_not_meant(tmp_path: Path) -> None:
    async def test(yard: Yard) -> None:
        await yard.fleets.create(build_fleet("here", "local"))
        await yard.add_machine()
        own = await yard.place("gpu7", fleet="here")
        assert (await yard.administration.mark_lost("gpu7", "gpu7")).jobs == ()
        assert (await yard.ledger.read(lambda c: load_job(c, own.id))).state == JobState.SUBMITTED.value
        assert (await yard.administration.remove("gpu7")).state is NodeState.REMOVED

    run(tmp_path, test)


def test_a_node_is_removed_once_nothing_lives_there_and_nobody_waits_for_its_rests(tmp_path: Path) -> None:
    async def test(yard: Yard) -> None:
        await yard.add_machine()
        job = await yard.place("gpu7")
        with pytest.raises(Conflict, match=f"jobs live there: {job.id}"):
            await yard.administration.remove("gpu7")
        await yard.administration.mark_lost("gpu7", "gpu7")
        await yard.ledger.write(lambda c: note_finalised(c, job.attempt.id, 1.0, {}, 0))
        assert len(await yard.ledger.read(list_unclean)) == 1
        await yard.administration.remove("gpu7")
        assert await yard.ledger.read(lambda c: list_unclean_of(c, job.id)) == []
        assert await yard.directory.locate([job.attempt.id]) == {}
        with pytest.raises(NotFound, match="gpu7"):
            await yard.administration.remove("gpu7")

    run(tmp_path, test)


def test_a_removal_ends_no_container_that_only_a_newer_ledger_knew(tmp_path: Path) -> None:
    async def test(yard: Yard) -> None:
        machine = await yard.add_machine()
        machine.attempts["jabcdefghi-1-abcdef"] = Phase.RUNNING.value
        await machine.beat(yard.registration)
        with pytest.raises(Conflict, match="jabcdefghi-1-abcdef"):
            await yard.administration.remove(machine.name)
        machine.attempts["jabcdefghi-1-abcdef"] = Phase.EXITED.value
        await machine.beat(yard.registration)
        assert (await yard.administration.remove(machine.name)).state is NodeState.REMOVED

    run(tmp_path, test)


def test_a_machine_that_was_declared_lost_is_removed_whatever_it_last_told(tmp_path: Path) -> None:
    async def test(yard: Yard) -> None:
        machine = await yard.add_machine()
        machine.attempts["jabcdefghi-1-abcdef"] = Phase.RUNNING.value
        await machine.beat(yard.registration)
        await yard.administration.mark_lost(machine.name, machine.name)
        assert (await yard.administration.remove(machine.name)).state is NodeState.REMOVED

    run(tmp_path, test)


def test_a_node_whose_ended_attempts_are_still_being_read_is_not_removed_yet(tmp_path: Path) -> None:
    async def test(yard: Yard) -> None:
        await yard.add_machine()
        job = await yard.place("gpu7")
        await yard.administration.mark_lost("gpu7", "gpu7")
        with pytest.raises(Conflict, match="still being read"):
            await yard.administration.remove("gpu7")
        await yard.ledger.write(lambda c: note_finalised(c, job.attempt.id, 1.0, {}, 0))
        assert (await yard.administration.remove("gpu7")).state is NodeState.REMOVED

    run(tmp_path, test)


def test_a_drain_lasts_until_it_is_taken_back_also_over_a_loss(tmp_path: Path) -> None:
    async def test(yard: Yard) -> None:
        machine = await yard.add_machine()
        row = await yard.administration.drain("gpu7", "a fan is broken")
        assert (row.state, row.drained_why) == (NodeState.DRAINING, "a fan is broken")
        await yard.administration.mark_lost("gpu7", "gpu7")
        for change in (yard.administration.undrain("gpu7"), yard.administration.drain("gpu7", "again")):
            with pytest.raises(Conflict, match="marked lost"):
                await change
        await machine.beat(yard.registration)
        await machine.beat(yard.registration)
        assert yard.directory.nodes("gpu")[0].standing is NodeState.DRAINING
        await yard.administration.undrain("gpu7")
        await yard.restart()
        assert yard.directory.nodes("gpu")[0].standing is NodeState.ACTIVE

    run(tmp_path, test)


def test_an_unknown_container_is_ended_at_its_node_and_removed_once_it_has_ended(tmp_path: Path) -> None:
    async def test(yard: Yard) -> None:
        machine = await yard.add_machine()
        executor = yard.executors["gpu"]
        with pytest.raises(NotFound, match="no container"):
            await yard.administration.end_unknown("gpu7", UNKNOWN)
        machine.attempts[UNKNOWN] = "RUNNING"
        await machine.beat(yard.registration)
        assert (await yard.directory.locate([UNKNOWN]))[UNKNOWN].name == "gpu7"
        await yard.administration.end_unknown("gpu7", UNKNOWN)
        assert ("stop", UNKNOWN) in executor.journal.calls
        assert ("cleanup", UNKNOWN) not in executor.journal.calls
        machine.attempts[UNKNOWN] = "EXITED"
        await machine.beat(yard.registration)
        async with asyncio.timeout(10):
            await yard.administration.settle()
        assert ("cleanup", UNKNOWN) in executor.journal.calls

    run(tmp_path, test)


def test_a_known_attempt_is_ended_through_its_job_alone(tmp_path: Path) -> None:
    async def test(yard: Yard) -> None:
        machine = await yard.add_machine()
        job = await yard.place("gpu7")
        machine.attempts[job.attempt.id] = "RUNNING"
        await machine.beat(yard.registration)
        with pytest.raises(Conflict, match=job.id):
            await yard.administration.end_unknown("gpu7", job.attempt.id)
        assert yard.executors["gpu"].journal.calls == []

    run(tmp_path, test)


def test_join_tokens_are_listed_without_their_text_and_only_while_they_let_somebody_in(tmp_path: Path) -> None:
    async def test(yard: Yard) -> None:
        minted = await yard.administration.mint_token("gpu", "ada", 1.0, 2)
        assert minted.text.reveal() not in repr(minted)
        (kept,) = await yard.administration.list_tokens("gpu")
        assert (kept.uses_left, kept.created_by, kept.expires_at) == (2, "ada", yard.clock.at + 3600.0)
        await Machine().join(yard.registration, minted.text.reveal())
        assert [token.uses_left for token in await yard.administration.list_tokens("gpu")] == [1]
        yard.clock.at += 3600.0
        assert list(await yard.administration.list_tokens("gpu")) == []
        for hours, uses in ((0.0, 1), (3000.0, 1), (1.0, 0), (1.0, 1001)):
            with pytest.raises(InputError):
                await yard.administration.mint_token("gpu", "ada", hours, uses)

    run(tmp_path, test)


def test_no_machine_joins_a_fleet_of_another_kind_or_one_that_there_is_not(tmp_path: Path) -> None:
    async def test(yard: Yard) -> None:
        await yard.fleets.create(build_fleet("here", "local"))
        with pytest.raises(Conflict, match="kind local"):
            await yard.administration.mint_token("here", "ada")
        with pytest.raises(NotFound, match="no fleet 'nowhere'"):
            await yard.administration.mint_token("nowhere", "ada")

    run(tmp_path, test)


def test_a_fleet_that_is_made_is_served_at_once_and_after_a_restart(tmp_path: Path) -> None:
    async def test(yard: Yard) -> None:
        seen = iter(yard.fleets)
        await yard.fleets.create(build_fleet("more", "node", "host", "1000:1000"))
        assert list(seen) == ["gpu"]  # whoever was going through them goes on undisturbed
        assert set(yard.fleets) == {"gpu", "more"}
        await yard.restart()
        assert yard.fleets.fleets["more"].network is Network.HOST
        assert yard.fleets.fleets["more"].user == "1000:1000"

    run(tmp_path, test)


@pytest.mark.parametrize(
    ("name", "user"), [("", None), ("-a", None), ("A", None), ("a" * 41, None), ("a b", None), ("a", "root")]
)
def test_names_and_users_that_cannot_be_ones_are_refused(tmp_path: Path, name: str, user: str | None) -> None:
    async def test(yard: Yard) -> None:
        with pytest.raises(InputError):
            await yard.fleets.create(build_fleet(name, "node", user=user))
        assert set(yard.fleets) == {"gpu"}

    run(tmp_path, test)


def test_a_taken_name_a_second_local_fleet_and_a_console_that_still_starts_are_refused(tmp_path: Path) -> None:
    async def test(yard: Yard) -> None:
        with pytest.raises(Conflict, match="gpu"):
            await yard.fleets.create(build_fleet("gpu", "node"))
        await yard.fleets.create(build_fleet("here", "local"))
        with pytest.raises(Conflict, match="this host"):
            await yard.fleets.create(build_fleet("there", "local"))
        starting = ServedFleets(
            yard.ledger, lambda fleet: FakeExecutor(fleet.name, [FakeNode(name="n1")]), yard.wakeups, yard.clock
        )
        with pytest.raises(Unavailable, match="starting"):
            await starting.create(build_fleet("early", "node"))
        for kind, network in (("cloud", "bridge"), ("node", "macvlan")):
            with pytest.raises(InputError):
                build_fleet("x", kind, network)

    run(tmp_path, test)


def test_an_added_name_of_a_gpu_has_its_series_at_once_whatever_its_spaces_and_case(tmp_path: Path) -> None:
    async def test(yard: Yard) -> None:
        find = yard.hardware.find
        assert find("NVIDIA X9000") is None
        await yard.hardware.add("NVIDIA  X9000 ", "x9000-sxm", "ada")
        assert find("nvidia x9000") == "x9000-sxm"
        await yard.hardware.add("X9000", "x9000", "bob")
        assert [(one.series, one.added_by) for one in yard.hardware.list_added()] == [("x9000", "bob")]
        await yard.restart()
        assert yard.hardware.find("NVIDIA X9000") == "x9000"
        await yard.hardware.remove("x9000")
        assert yard.hardware.find("NVIDIA X9000") is None
        with pytest.raises(NotFound):
            await yard.hardware.remove("x9000")

    run(tmp_path, test)


def test_a_built_in_name_keeps_its_series_and_labels_have_a_form(tmp_path: Path) -> None:
    async def test(yard: Yard) -> None:
        with pytest.raises(Conflict, match="h200"):
            await yard.hardware.add("NVIDIA H200", "h100", "ada")
        for name, series in (("X", "Upper"), ("X", ""), ("X", "-x"), ("", "x"), ("X\x07", "x"), ("X" * 201, "x")):
            with pytest.raises(InputError):
                await yard.hardware.add(name, series, "ada")

    run(tmp_path, test)


def test_pages_are_told_of_every_change(tmp_path: Path) -> None:
    async def test(yard: Yard) -> None:
        await yard.add_machine()
        administration = yard.administration
        changes: list[Callable[[], Awaitable[object]]] = [
            lambda: administration.drain("gpu7", ""),
            lambda: administration.undrain("gpu7"),
            lambda: administration.mark_lost("gpu7", "gpu7"),
            lambda: administration.remove("gpu7"),
            lambda: yard.fleets.create(build_fleet("more", "node")),
        ]
        for change in changes:
            waiter = yard.wakeups.subscribe(NODES)
            await change()
            assert waiter.woken.done()

    run(tmp_path, test)


def test_a_machine_that_the_settings_name_is_refused_with_what_to_do_about_it(tmp_path: Path) -> None:
    async def test(yard: Yard) -> None:
        yard.directory.serve_legacy("gpu", ["10.0.0.9:7070"])
        (legacy,) = yard.directory.rows("gpu")
        admin = yard.administration
        acts = (
            admin.drain(legacy.name, "a fan"),
            admin.undrain(legacy.name),
            admin.remove(legacy.name),
            admin.mark_lost(legacy.name, legacy.name),
        )
        for act in acts:
            with pytest.raises(Conflict, match=r"FORGE_NODE_ADDRESSES .*10\.0\.0\.9:7070.*sf fleet token gpu"):
                await act
        assert [row.state for row in yard.directory.rows("gpu")] == [NodeState.ACTIVE]

    run(tmp_path, test)


def test_an_unknown_container_of_a_machine_that_the_settings_name_is_ended_like_any_other(tmp_path: Path) -> None:
    async def test(yard: Yard) -> None:
        yard.directory.serve_legacy("gpu", ["10.0.0.9:7070"])
        (legacy,) = yard.directory.rows("gpu")
        told = Machine(name=legacy.name, attempts={UNKNOWN: "RUNNING"}).build_report()
        yard.directory.note_report(legacy.name, told)
        await yard.administration.end_unknown(legacy.name, UNKNOWN)
        with pytest.raises(NotFound, match="tells of no container"):
            await yard.administration.end_unknown(legacy.name, AttemptId("j9z2abcdef-1-abcdef"))

    run(tmp_path, test)
