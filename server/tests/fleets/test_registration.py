"""Machines join, and what they sign counts once."""

import asyncio
import stat
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from server.tests.fleets.machines import H200, Machine, build_gpu, build_view
from server.tests.fleets.yard import KEY_FILE, Yard, open_yard
from starforge.contract.registration import EPOCH_PURPOSE, EpochRequest, Fenced, HeartbeatAnswer, Superseded
from starforge.contract.wire import encode
from starforge.errors import Conflict, InputError, NotFound, Refused, StarForgeError
from starforge.trust.certificates import load_public_key, make_identity
from starforge_console.domain.nodes import NodeState, NodeStatus
from starforge_console.errors import NotTheNode
from starforge_console.executors.node.viewing import find_standing
from starforge_console.wakeups import NODES, QUEUE

Test = Callable[[Yard], Awaitable[None]]


def run(root: Path, test: Test) -> None:
    """Run a test in an event loop, with a console of its own."""

    async def _run() -> None:
        async with open_yard(root) as yard:
            await test(yard)

    asyncio.run(_run())


def test_a_machine_joins_with_a_token_and_learns_all_that_its_daemon_needs(tmp_path: Path) -> None:
    async def test(yard: Yard) -> None:
        machine = Machine()
        answer = await machine.join(yard.registration, await yard.mint())
        assert (answer.node, answer.fleet, answer.install) == ("gpu7", "gpu", "install1")
        assert (answer.storage_root, answer.storage_id) == (str(tmp_path / "storage"), "storage1")
        assert (answer.ingest_url, answer.fence, answer.heartbeat_s) == ("http://console:7081", 0, 10.0)
        assert (answer.gpus_without_series, answer.replaces) == ((), ())
        assert len(load_public_key(answer.certificate)) == 32
        (known,) = yard.directory.nodes("gpu")
        assert (known.name, known.advertise, known.certificate) == ("gpu7", "10.0.0.7:7070", machine.certificate)
        assert known.heard_at is None

    run(tmp_path, test)


def test_the_consoles_key_is_made_once_for_its_owner_alone_and_is_not_in_the_ledger(tmp_path: Path) -> None:
    async def test(yard: Yard) -> None:
        assert not (tmp_path / KEY_FILE).exists()
        first = await Machine().join(yard.registration, await yard.mint())
        await yard.restart()
        second = await Machine().join(yard.registration, await yard.mint())
        assert first.certificate == second.certificate
        assert stat.S_IMODE((tmp_path / KEY_FILE).stat().st_mode) == 0o600

    run(tmp_path, test)
    assert b"PRIVATE KEY" not in b"".join(file.read_bytes() for file in tmp_path.glob("ledger.db*"))


def test_a_second_machine_of_that_name_gets_a_number_and_is_offered_the_silent_one_it_may_replace(
    tmp_path: Path,
) -> None:
    async def test(yard: Yard) -> None:
        await yard.add_machine()
        beside = await Machine().join(yard.registration, await yard.mint())
        assert (beside.node, beside.replaces) == ("gpu7-2", ())
        yard.clock.at += 31.0
        third = await Machine().join(yard.registration, await yard.mint())
        assert (third.node, third.replaces) == ("gpu7-3", ("gpu7", "gpu7-2"))

    run(tmp_path, test)


def test_a_name_is_never_given_again_not_even_after_a_removal(tmp_path: Path) -> None:
    async def test(yard: Yard) -> None:
        await Machine().join(yard.registration, await yard.mint())
        await yard.administration.remove("gpu7")
        assert (await Machine().join(yard.registration, await yard.mint())).node == "gpu7-2"
        assert [node.name for node in yard.directory.nodes("gpu")] == ["gpu7-2"]

    run(tmp_path, test)


def test_names_of_gpus_that_nobody_knows_are_told_at_the_join_and_no_longer_once_added(tmp_path: Path) -> None:
    async def test(yard: Yard) -> None:
        token = await yard.mint()
        request = Machine().build_join(token, gpus=(H200, "NVIDIA X9000", "NVIDIA X9000"))
        assert (await yard.registration.join(request, "10.0.0.7")).gpus_without_series == ("NVIDIA X9000",)
        await yard.hardware.add("nvidia x9000", "x9000", "ada")
        assert (await yard.registration.join(request, "10.0.0.7")).gpus_without_series == ()

    run(tmp_path, test)


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        ("unknown", "not known"),
        ("expired", "expired"),
        ("used up", "used up"),
        ("revoked", "revoked"),
        ("other fleet", "not for fleet"),
    ],
)
def test_a_token_that_lets_nobody_in_says_why_and_no_node_is_kept(tmp_path: Path, spoil: str, says: str) -> None:
    async def test(yard: Yard) -> None:
        token = await yard.mint(hours=1.0, uses=1)
        fleet = "gpu"
        if spoil == "unknown":
            token = token[::-1]
        elif spoil == "expired":
            yard.clock.at += 3600.0
        elif spoil == "used up":
            await Machine(hostname="first").join(yard.registration, token)
        elif spoil == "revoked":
            (kept,) = await yard.administration.list_tokens("gpu")
            await yard.administration.revoke_token("gpu", kept.id)
        else:
            fleet = "another"
        before = len(yard.directory.nodes("gpu"))
        with pytest.raises(Refused, match=says) as refused:
            await yard.registration.join(Machine(fleet=fleet).build_join(token), "10.0.0.7")
        assert token not in str(refused.value)
        assert len(yard.directory.nodes("gpu")) == before

    run(tmp_path, test)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"advertise": "0.0.0.0:7070"}, "no single machine"),
        ({"advertise": "[::]:7070"}, "no single machine"),
        ({"advertise": "10.0.0.7"}, "HOST:PORT"),
        ({"certificate": "no certificate"}, "cannot be read"),
        ({"certificate": f"{make_identity('n1').certificate}{make_identity('n2').certificate}"}, "more than one"),
        ({"certificate": f"{make_identity('n1').certificate}-----BEGIN CERTIFICATE-----\nAA\n"}, "more than one"),
        ({"certificate": f"\u00e9\n{make_identity('n1').certificate}"}, "more than one"),
        ({"certificate": make_identity("n1").pem}, "more than one"),
        ({"hostname": ""}, "no name"),
        ({"hostname": "gpu\x1b[31m"}, "control signs"),
        ({"gpus": ("x",) * 1000}, "1000 GPUs"),
    ],
)
def test_a_request_that_cannot_be_used_costs_no_use_of_the_token(
    tmp_path: Path, change: dict[str, object], says: str
) -> None:
    async def test(yard: Yard) -> None:
        token = await yard.mint(uses=1)
        with pytest.raises(InputError, match=says):
            await yard.registration.join(Machine().build_join(token, **change), "10.0.0.7")
        assert (await Machine().join(yard.registration, token)).node == "gpu7"

    run(tmp_path, test)


def test_whoever_holds_the_old_key_renews_both_without_a_token_and_keeps_the_name(tmp_path: Path) -> None:
    async def test(yard: Yard) -> None:
        machine = await yard.add_machine()
        renewed = make_identity("gpu7").pem
        request = replace(machine.build_rejoin(renewed), advertise="10.0.0.9:7071")
        answer = await yard.registration.join(request, "10.0.0.9")
        assert answer.node == "gpu7"
        with pytest.raises(NotTheNode):
            await machine.beat(yard.registration)
        machine.pem = renewed
        assert isinstance(await machine.beat(yard.registration), HeartbeatAnswer)
        (known,) = yard.directory.nodes("gpu")
        assert known.advertise == "10.0.0.9:7071"

    run(tmp_path, test)


def test_a_renewal_whose_answer_was_lost_may_be_asked_again_with_the_old_key_until_the_new_one_was_used(
    tmp_path: Path,
) -> None:
    async def test(yard: Yard) -> None:
        machine = await yard.add_machine()
        for _ in range(2):  # nobody heard the answers
            await yard.registration.join(machine.build_rejoin(make_identity("gpu7").pem), "10.0.0.7")
        last = make_identity("gpu7").pem
        replay = machine.build_rejoin(last)
        assert (await yard.registration.join(replay, "10.0.0.7")).node == "gpu7"
        machine.pem = last
        assert isinstance(await machine.beat(yard.registration), HeartbeatAnswer)
        with pytest.raises(Refused, match="token"):
            await yard.registration.join(replay, "10.0.0.66")

    run(tmp_path, test)


def test_a_proof_by_another_key_or_for_another_console_is_none_and_needs_a_token(tmp_path: Path) -> None:
    async def test(yard: Yard) -> None:
        machine = await yard.add_machine()
        thief = machine.copy()
        thief.pem = make_identity("thief").pem
        for request in (
            thief.build_rejoin(thief.pem),
            machine.build_rejoin(thief.pem, install="another"),
            replace(machine.build_rejoin(thief.pem), rejoin_proof="no base64!"),
        ):
            with pytest.raises(Refused, match="token"):
                await yard.registration.join(request, "10.0.0.66")
        assert (await yard.registration.join(thief.build_rejoin(thief.pem, await yard.mint()), "x")).node == "gpu7-2"
        assert isinstance(await machine.beat(yard.registration), HeartbeatAnswer)

    run(tmp_path, test)


def test_a_node_stays_in_its_fleet_when_it_joins_again(tmp_path: Path) -> None:
    async def test(yard: Yard) -> None:
        machine = await yard.add_machine()
        request = replace(machine.build_rejoin(machine.pem), fleet="another")
        with pytest.raises(Conflict, match="node gpu7 of fleet 'gpu'"):
            await yard.registration.join(request, "10.0.0.7")

    run(tmp_path, test)


def test_a_heartbeat_is_kept_shown_and_answered_with_whether_the_console_reaches_the_node(tmp_path: Path) -> None:
    async def test(yard: Yard) -> None:
        machine = await yard.add_machine()
        (known,) = yard.directory.nodes("gpu")
        assert known.heard_at == yard.clock.at
        assert known.report is not None
        assert known.report.view == machine.view
        first = await machine.beat(yard.registration)
        assert isinstance(first, HeartbeatAnswer)
        assert (first.reachable, first.unreachable_why) == (False, "the console has not called it yet")
        yard.directory.note_reach("gpu7", "")
        second = await machine.beat(yard.registration)
        assert isinstance(second, HeartbeatAnswer)
        assert (second.reachable, second.unreachable_why, second.now) == (True, "", yard.clock.at)

    run(tmp_path, test)


def test_a_node_that_joins_again_is_no_place_before_it_was_called_anew(tmp_path: Path) -> None:
    async def test(yard: Yard) -> None:
        machine = await yard.add_machine()
        yard.directory.note_reach("gpu7", "")
        (reached,) = yard.directory.nodes("gpu")
        assert find_standing(reached, yard.clock.at).status is NodeStatus.READY
        await yard.registration.join(machine.build_rejoin(machine.pem), "10.0.0.7")
        (renewed,) = yard.directory.nodes("gpu")
        assert find_standing(renewed, yard.clock.at).refusal == "the console has not called it yet"

    run(tmp_path, test)


def test_a_node_behind_address_translation_is_told_so(tmp_path: Path) -> None:
    async def test(yard: Yard) -> None:
        machine = Machine(advertise="192.168.9.2:7070")
        await machine.join(yard.registration, await yard.mint(), peer="203.0.113.5")
        await machine.take_epoch(yard.registration)
        yard.directory.note_reach("gpu7", "timed out")
        answer = await machine.beat(yard.registration)
        assert isinstance(answer, HeartbeatAnswer)
        assert "timed out; it joined from 203.0.113.5 and advertises 192.168.9.2:7070: NAT?" in answer.unreachable_why

    run(tmp_path, test)


def test_a_heartbeat_counts_once_also_across_a_restart_of_the_console(tmp_path: Path) -> None:
    async def test(yard: Yard) -> None:
        machine = await yard.add_machine()
        old = machine.build_beat()
        await yard.registration.beat("gpu7", old)
        newest = machine.build_beat()
        await yard.registration.beat("gpu7", newest)
        for _ in range(2):
            for replay in (old, newest):
                with pytest.raises(Refused, match="not newer"):
                    await yard.registration.beat("gpu7", replay)
            await yard.restart()
        (known,) = yard.directory.nodes("gpu")
        assert known.heard_at is None
        assert known.report is not None
        assert isinstance(await machine.beat(yard.registration), HeartbeatAnswer)

    run(tmp_path, test)


def test_a_changed_body_header_or_purpose_is_not_the_nodes(tmp_path: Path) -> None:
    async def test(yard: Yard) -> None:
        machine = await yard.add_machine()
        beat, question = machine.build_beat(), machine.build_question()
        for forged in (
            replace(beat, body=beat.body.replace(b"boot-1", b"boot-2")),
            replace(beat, counter=beat.counter + 1),
            replace(beat, signature=b"\0" * 64),
            replace(beat, signature=b""),
            question,
        ):
            with pytest.raises(NotTheNode):
                await yard.registration.beat("gpu7", forged)
        with pytest.raises(NotTheNode):
            await yard.registration.take_epoch("gpu7", replace(question, epoch=7))
        assert isinstance(await yard.registration.beat("gpu7", beat), HeartbeatAnswer)

    run(tmp_path, test)


def test_another_nodes_report_and_an_unknown_nodes_heartbeat_are_refused(tmp_path: Path) -> None:
    async def test(yard: Yard) -> None:
        machine = await yard.add_machine()
        stranger = Machine(name="nobody")
        with pytest.raises(NotFound):
            await stranger.beat(yard.registration)
        other = await yard.add_machine(Machine(hostname="other"))
        other.name, mine = "gpu7", other.name
        body = other.build_beat().body
        other.name = mine
        with pytest.raises(InputError):
            await yard.registration.beat(mine, other.sign(b"starforge-heartbeat-1", (other.epoch, 9), body))
        assert isinstance(await machine.beat(yard.registration), HeartbeatAnswer)
        for fence in (-1, 1 << 70):
            machine.fence = fence
            with pytest.raises(InputError, match="no amount"):
                await machine.beat(yard.registration)

    run(tmp_path, test)


def test_a_daemon_of_an_older_epoch_is_superseded_and_both_are_shown(tmp_path: Path) -> None:
    async def test(yard: Yard) -> None:
        first = await yard.add_machine()
        second = first.copy()
        assert await second.take_epoch(yard.registration) == 2
        assert await first.beat(yard.registration) == Superseded(superseded_by=2)
        assert await first.take_epoch(yard.registration) is None
        (known,) = yard.directory.nodes("gpu")
        assert find_standing(known, yard.clock.at).status is NodeStatus.SUPERSEDED
        assert isinstance(await second.beat(yard.registration), HeartbeatAnswer)
        yard.clock.at += 61.0
        (known,) = yard.directory.nodes("gpu")
        assert not known.two_daemons

    run(tmp_path, test)


def test_a_console_restored_from_before_an_epoch_lets_the_daemon_take_the_one_after_its_own(tmp_path: Path) -> None:
    async def test(yard: Yard) -> None:
        machine = await yard.add_machine()
        machine.epoch = 40  # the ledger forgot the epochs between
        with pytest.raises(Refused) as refused:
            await machine.beat(yard.registration)
        assert not isinstance(refused.value, Conflict)  # that would read as superseded
        assert await machine.take_epoch(yard.registration) == 41
        assert isinstance(await machine.beat(yard.registration), HeartbeatAnswer)

    run(tmp_path, test)


def test_only_news_wakes_whoever_places_jobs(tmp_path: Path) -> None:
    async def test(yard: Yard) -> None:
        machine = await yard.add_machine()
        told: list[str] = []
        end = yard.directory.subscribe("gpu", lambda: told.append("gpu"))
        waiter = yard.wakeups.subscribe(QUEUE, NODES)
        machine.at += 10.0
        await machine.beat(yard.registration)
        assert (told, waiter.woken.done()) == ([], False)
        machine.view = build_view(build_gpu(0, attempt="j2k7abcdef-1-abcdef"), build_gpu(1))
        await machine.beat(yard.registration)
        assert (told, waiter.woken.done()) == (["gpu"], True)
        end()
        machine.attempts["j2k7abcdef-1-abcdef"] = "RUNNING"
        await machine.beat(yard.registration)
        assert told == ["gpu"]

    run(tmp_path, test)


def test_a_lost_node_comes_back_only_once_it_has_removed_what_was_lost_there_and_what_nobody_knows(
    tmp_path: Path,
) -> None:
    async def test(yard: Yard) -> None:
        machine = await yard.add_machine()
        lost = await yard.place("gpu7")
        machine.attempts = {lost.attempt.id: "RUNNING", "j2k7abcdef-1-abcdef": "RUNNING"}
        await machine.beat(yard.registration)
        await yard.administration.mark_lost("gpu7", "gpu7")
        answer = await machine.beat(yard.registration)
        assert isinstance(answer, Fenced)
        assert (answer.fence, set(answer.remove)) == (1, {lost.attempt.id, "j2k7abcdef-1-abcdef"})
        assert machine.attempts == {}
        assert isinstance(await machine.beat(yard.registration), HeartbeatAnswer)
        row = yard.directory.find_row("gpu7")
        assert row is not None
        assert (row.state, row.fence, row.fence_seen) == (NodeState.ACTIVE, 1, 1)

    run(tmp_path, test)


def test_until_it_has_cleaned_up_a_lost_node_stays_lost_and_keeps_what_it_was_given_before(tmp_path: Path) -> None:
    async def test(yard: Yard) -> None:
        machine = await yard.add_machine()
        await yard.administration.mark_lost("gpu7", "gpu7")
        for _ in range(2):  # the first answer is lost
            answer = await yard.registration.beat("gpu7", machine.build_beat())
            assert isinstance(answer, Fenced)
            row = yard.directory.find_row("gpu7")
            assert row is not None
            assert row.state is NodeState.LOST

    run(tmp_path, test)


def test_joining_again_does_not_spare_a_lost_node_its_cleanup(tmp_path: Path) -> None:
    async def test(yard: Yard) -> None:
        machine = await yard.add_machine()
        await yard.administration.mark_lost("gpu7", "gpu7")
        answer = await yard.registration.join(machine.build_rejoin(machine.pem), "10.0.0.7")
        assert answer.fence == 0
        assert isinstance(await machine.beat(yard.registration), Fenced)

    run(tmp_path, test)


def test_a_ledger_that_forgot_a_mark_still_fences_a_daemon_that_remembers_it(tmp_path: Path) -> None:
    async def test(yard: Yard) -> None:
        machine = await yard.add_machine()
        machine.fence = 5  # cleaned up for marks that the restored ledger does not hold
        await machine.beat(yard.registration)
        await yard.administration.mark_lost("gpu7", "gpu7")
        answer = await machine.beat(yard.registration)
        assert isinstance(answer, Fenced)
        assert answer.fence == 6

    run(tmp_path, test)


def test_a_removed_node_that_comes_back_removes_what_it_holds_and_is_then_refused(tmp_path: Path) -> None:
    async def test(yard: Yard) -> None:
        machine = await yard.add_machine()
        await yard.administration.remove("gpu7")
        machine.attempts["j2k7abcdef-1-abcdef"] = "RUNNING"
        assert await machine.take_epoch(yard.registration) == 2
        assert isinstance(await machine.beat(yard.registration), Fenced)
        assert machine.attempts == {}
        with pytest.raises(Refused, match="removed"):
            await machine.beat(yard.registration)
        with pytest.raises(StarForgeError):
            await yard.registration.join(machine.build_rejoin(machine.pem), "10.0.0.7")

    run(tmp_path, test)


def test_a_question_for_an_epoch_that_contradicts_itself_or_could_be_guessed_is_none(tmp_path: Path) -> None:
    async def test(yard: Yard) -> None:
        machine = await yard.add_machine()
        nonce = "0" * 32
        for numbers, request in (
            ((2, 0), EpochRequest(have=1, nonce=nonce)),
            ((1, 1), EpochRequest(have=1, nonce=nonce)),
            ((1, 0), EpochRequest(have=1, nonce="")),
            ((1, 0), EpochRequest(have=1, nonce="0" * 1000)),
        ):
            with pytest.raises(InputError):
                await yard.registration.take_epoch("gpu7", machine.sign(EPOCH_PURPOSE, numbers, encode(request)))
        assert isinstance(await machine.beat(yard.registration), HeartbeatAnswer)

    run(tmp_path, test)
