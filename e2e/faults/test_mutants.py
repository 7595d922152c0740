"""The invariants find every falsified picture, and nothing in a sound one."""

import random

import pytest

from e2e.faults.kinds import KINDS
from e2e.faults.mutants import MUTANTS
from e2e.support.invariants import Picture, find_faults
from tools.faults import deal

SOUND = Picture(install="lab", containers={}, submitted=(), jobs={}, attempts=frozenset(), starts={})


def test_a_sound_picture_has_no_fault() -> None:
    assert find_faults(SOUND) == []


@pytest.mark.parametrize("name", MUTANTS)
def test_a_falsified_picture_is_found(name: str) -> None:
    assert find_faults(MUTANTS[name](SOUND))


@pytest.mark.parametrize("rounds", [1, 2, 5, 40])
def test_every_kind_of_fault_is_dealt_however_few_the_rounds(rounds: int) -> None:
    hands = deal(random.Random(rounds), rounds)  # noqa: S311 - the same hands in every run
    assert len(hands) == rounds
    assert {kind.name for hand in hands for kind in hand} == {kind.name for kind in KINDS}
