"""The messages about examples of text that a job reports by step (`starforge.report.samples`)."""

from pydantic import Field, JsonValue

from starforge.contract.api import Answer


class SampleLine(Answer):
    """One report: under which name and at which step. Of several at one step the last counts."""

    name: str
    step: int
    attempt: int
    at: float
    rows: int
    left_out: int = Field(default=0, description="rows that were reported and are not kept")


class SampleList(Answer):
    """`GET /jobs/{id}/samples?name=&after=&limit=`: reports under a name by step. `next` is the `after` to go on."""

    names: tuple[str, ...]
    items: tuple[SampleLine, ...]
    next: int | None = None


class SampleSet(Answer):
    """`GET /jobs/{id}/samples/{step}?name=`: the rows of a report, each a text or a number by column."""

    line: SampleLine
    columns: tuple[str, ...]
    rows: tuple[dict[str, JsonValue], ...]
