"""Which attempts share a folder of outputs."""

from itertools import product

import pytest

from starforge_console.domain.outputs import decide_outputs, list_earlier_outputs, name_outputs


@pytest.mark.parametrize(
    ("number", "lost", "own", "earlier"),
    [
        (1, [], "out", []),
        (3, [], "out", []),
        (2, [1], "out-2", ["out"]),
        (3, [1], "out-2", ["out"]),
        (3, [2], "out-3", ["out"]),
        (3, [1, 2], "out-3", ["out-2", "out"]),
        (6, [2, 4], "out-5", ["out-3", "out"]),
        (2, [2], "out", []),  # that it was lost itself changes nothing of where it writes
        (4, [2, 4, 5], "out-3", ["out"]),
    ],
)
def test_an_attempt_writes_where_no_lost_one_may(number: int, lost: list[int], own: str, earlier: list[str]) -> None:
    assert name_outputs(decide_outputs(number, lost)) == own
    assert [name_outputs(first) for first in list_earlier_outputs(number, lost)] == earlier


@pytest.mark.parametrize("flags", list(product([False, True], repeat=6)))
def test_no_lost_attempt_shares_its_folder_with_a_later_one_and_every_earlier_folder_is_seen(
    flags: tuple[bool, ...],
) -> None:
    lost = [number for number, is_lost in enumerate(flags, 1) if is_lost]
    for number in range(1, len(flags) + 2):
        own, earlier = decide_outputs(number, lost), list_earlier_outputs(number, lost)
        assert own not in {decide_outputs(one, lost) for one in lost if one < number}
        assert {own, *earlier} == {decide_outputs(one, lost) for one in range(1, number + 1)}
        assert list(earlier) == sorted(earlier, reverse=True)
