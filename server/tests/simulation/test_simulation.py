"""Installs broken at random in virtual time: no sentence of safety fails, and no missing guard goes unseen."""

import pytest

from simulation.mutants import MUTANTS
from simulation.runs import run_seed, shorten
from simulation.steps import FAULTS, THEMES, find_theme

SEEDS = range(1000, 1028)
SEEDS_OF_MUTANTS = range(100)

pytestmark = pytest.mark.timeout(400)


def test_a_seed_is_the_same_run_each_time() -> None:
    first, second = run_seed(7), run_seed(7)
    assert (first.events, first.steps, first.violation) == (second.events, second.steps, second.violation)


@pytest.mark.parametrize("half", [SEEDS[::2], SEEDS[1::2]], ids=["even", "odd"])
def test_no_sentence_of_safety_fails_whatever_happens(half: range) -> None:
    runs = [run_seed(seed) for seed in half]
    assert {run.seed: run.violation for run in runs if run.violation} == {}
    assert {find_theme(run.seed) for run in runs} == set(THEMES)
    met = {name for run in runs for name in run.events}
    assert {fault.value for fault in FAULTS} <= met, "a kind of fault never happened"


@pytest.mark.parametrize("name", MUTANTS)
def test_a_missing_guard_is_found_out(name: str) -> None:
    assert any(run_seed(seed, name).violation for seed in SEEDS_OF_MUTANTS)


def test_the_history_of_a_violation_is_shortened_to_what_matters() -> None:
    found = next(run for run in (run_seed(seed, "stop forgotten") for seed in SEEDS_OF_MUTANTS) if run.violation)
    short = shorten(found, "stop forgotten")
    assert short.violation
    assert len(short.steps) < 6 <= len(found.steps)
