"""Which folder of the job's run an attempt leaves its outputs in: pure, from how the attempts before it ended.

The attempts of a job share one folder one after another. One that was lost with its machine may live on there, unseen,
and write to the storage: what comes after it gets another folder. A folder is known by the first attempt that may use
it.
"""

from collections.abc import Collection


def decide_outputs(number: int, lost: Collection[int]) -> int:
    """The first attempt of those that share the outputs of attempt `number`; `lost` are numbers of lost attempts."""
    return max((one + 1 for one in lost if one < number), default=1)


def list_earlier_outputs(number: int, lost: Collection[int]) -> tuple[int, ...]:
    """The first attempts of the folders that `number` may only read, newest first."""
    return tuple(sorted({decide_outputs(one, lost) for one in lost if one < number}, reverse=True))


def name_outputs(first: int) -> str:
    """The folder's name below the run's."""
    return "out" if first == 1 else f"out-{first}"
