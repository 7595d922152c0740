"""The page docs/dev/states.md: a diagram and a table of a job's states, drawn from the transition table itself."""

from collections import defaultdict
from collections.abc import Mapping

from starforge.contract.states import TRANSITIONS, JobState, Reason

_HEAD = """\
# A job's states

Generated from `starforge.contract.states`; `make fix` writes it anew and `make check` compares. A change of state
needs a state and a reason that stand together in this table; every other pair is an error.

"""


def build_page(transitions: Mapping[tuple[JobState | None, Reason], JobState] = TRANSITIONS) -> str:
    """The whole page, the same text for the same table."""
    reasons: dict[tuple[JobState | None, JobState], list[str]] = defaultdict(list)
    for (before, reason), after in transitions.items():
        reasons[before, after].append(reason.value)
    edges = [f"  {_node(before)} --> {after}: {', '.join(names)}" for (before, after), names in reasons.items()]
    rows = [f"| {before or '(new)'} | {reason} | {after} |" for (before, reason), after in transitions.items()]
    diagram = "\n".join(["```mermaid", "stateDiagram-v2", *edges, *_ends(transitions), "```"])
    table = "\n".join(["| from | reason | to |", "|---|---|---|", *rows])
    return f"{_HEAD}{diagram}\n\n{table}\n"


def _node(state: JobState | None) -> str:
    return "[*]" if state is None else state.value


def _ends(transitions: Mapping[tuple[JobState | None, Reason], JobState]) -> list[str]:
    """An edge to the end mark for each state that nothing leaves."""
    left = {before for before, _ in transitions}
    return [f"  {state} --> [*]" for state in JobState if state not in left and state in transitions.values()]
