"""Examples that a job reported, on its page: one step, or two side by side."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from starlette.datastructures import QueryParams

from starforge.contract.samples import SampleSet
from starforge_console.web.deps import ApiServices
from starforge_console.web.samples import STEPS_AT_MOST, find_samples, load_samples

NAME_LENGTH: Final = 200
_LOWEST: Final = -(2**63)
_DIGITS: Final = 19


@dataclass(frozen=True, slots=True)
class SamplesView:
    """What is shown. `shown` are the one or two steps that were chosen; `before` and `after` those beside the first."""

    names: tuple[str, ...]
    name: str
    steps: tuple[int, ...]
    shown: tuple[SampleSet, ...]
    before: int | None
    after: int | None

    @property
    def other(self) -> int | None:
        """The second step, where two are shown."""
        return self.shown[1].line.step if len(self.shown) > 1 else None


async def load_samples_part(services: ApiServices, job_id: str, query: QueryParams) -> dict[str, Any]:
    """What the view of examples shows: the newest step unless one is asked for."""
    wanted = query.get("name", "")[:NAME_LENGTH] or None
    told = await load_samples(services, job_id, wanted, (_LOWEST, STEPS_AT_MOST))
    name = wanted if wanted is not None else next(iter(told.names), "")
    steps = tuple(one.step for one in told.items)
    first = await find_samples(services, job_id, name, _parse(query.get("step", "")))
    first = first or (await find_samples(services, job_id, name, None) if steps else None)
    second = _parse(query.get("beside", ""))
    other = await find_samples(services, job_id, name, second) if second is not None else None
    shown = tuple(one for one in (first, other) if one is not None)
    at = steps.index(first.line.step) if first is not None and first.line.step in steps else None
    return {
        "samples": SamplesView(
            names=told.names,
            name=name,
            steps=steps,
            shown=shown if first is not None else (),
            before=None if not at else steps[at - 1],
            after=_find_next(steps, at),
        )
    }


def _find_next(steps: Sequence[int], at: int | None) -> int | None:
    return steps[at + 1] if at is not None and at + 1 < len(steps) else None


def _parse(text: str) -> int | None:
    """A step as an address holds it; None for anything else."""
    digits = text.removeprefix("-")
    if not digits.isascii() or not digits.isdigit() or len(digits) > _DIGITS:
        return None
    step = int(text)
    return step if abs(step) < -_LOWEST else None
