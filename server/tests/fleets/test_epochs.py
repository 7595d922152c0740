"""Whatever daemons with one identity do, one of them serves in the end, and none pushes the other out for ever."""

import asyncio
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from server.tests.fleets.machines import Machine
from server.tests.fleets.yard import Yard, open_yard
from starforge.contract.registration import HeartbeatAnswer, Superseded
from starforge.errors import Refused

ROUNDS = 12
STEPS = ("beat", "restart", "lose the answer", "copy", "restart the console")


async def _live(machine: Machine, yard: Yard) -> bool:
    """One turn of a daemon, as forgelet has it; whether the console heard it as the node."""
    if machine.counter < 0 and await machine.take_epoch(yard.registration) is None:
        return False
    try:
        answer = await machine.beat(yard.registration)
    except Refused:
        machine.counter = -1  # whatever was agreed is to be agreed anew
        return False
    assert isinstance(answer, HeartbeatAnswer | Superseded)
    return isinstance(answer, HeartbeatAnswer)


async def _lose_answer(machine: Machine, yard: Yard) -> None:
    """It asks for an epoch, and dies before it hears the answer."""
    await yard.registration.take_epoch(machine.name, machine.build_question())
    machine.counter = -1


async def _play(root: Path, steps: list[tuple[str, int]]) -> None:
    async with open_yard(root) as yard:
        first = await yard.add_machine()
        daemons = [first]
        for step, which in steps:
            machine = daemons[which % len(daemons)]
            match step:
                case "beat":
                    await _live(machine, yard)
                case "restart":
                    machine.counter = -1
                    await _live(machine, yard)
                case "lose the answer":
                    await _lose_answer(machine, yard)
                case "copy":
                    daemons.append(machine.copy())
                case _:
                    await yard.restart()
        heard = [[await _live(machine, yard) for machine in daemons] for _ in range(ROUNDS)]
        settled = heard[-1]
        assert sum(settled) == 1, heard
        assert heard[-4:] == [settled] * 4, heard
        row = yard.directory.find_row(first.name)
        assert row is not None
        # Nobody takes epochs any more once it is settled: a superseded daemon stays up and waits.
        assert daemons[settled.index(True)].epoch == row.epoch


@given(st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 5)), max_size=12))
@settings(max_examples=40)
def test_of_daemons_with_one_identity_exactly_one_serves_in_the_end(steps: list[tuple[str, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(_play(Path(folder), steps))


def test_a_copy_made_while_a_question_was_open_gets_the_same_answer_and_the_two_still_come_apart(
    tmp_path: Path,
) -> None:
    async def test() -> None:
        async with open_yard(tmp_path) as yard:
            first = await yard.add_machine()
            first.build_question()
            second = first.copy()
            assert await first.take_epoch(yard.registration) == 2
            assert await second.take_epoch(yard.registration) == 2
            assert await _live(first, yard)
            heard = [(await _live(second, yard), await _live(first, yard)) for _ in range(6)]
            assert sorted(heard[-1]) == [False, True]
            assert heard[-3:] == [heard[-1]] * 3

    asyncio.run(test())


def test_the_same_question_gets_the_same_answer_however_often_it_is_asked(tmp_path: Path) -> None:
    async def test() -> None:
        async with open_yard(tmp_path) as yard:
            machine = await yard.add_machine()
            question = machine.build_question()
            answers = [await yard.registration.take_epoch("gpu7", question) for _ in range(3)]
            await yard.restart()
            answers.append(await yard.registration.take_epoch("gpu7", question))
            assert len(set(answers)) == 1
            assert await machine.take_epoch(yard.registration) == 2

    asyncio.run(test())
