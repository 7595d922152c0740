"""The message in which the console says why an attempt failed."""

from pydantic import Field

from starforge.contract.api import Answer


class DiagnosisView(Answer):
    """`GET /jobs/{id}/diagnosis?attempt=`: 404 while the attempt has not ended, or its log is still being read.

    The category `unknown` is an answer: no rule knows how it ended. `root_cause_line`, `line` (from 1) and
    `byte_offset` tell where in the attempt's log it stands, null where only the exit tells it.
    """

    job: str
    attempt: int
    category: str
    kind: str = Field(description="the rule that knew it; pages translate summary and advice by it")
    summary: str
    root_cause_line: str | None = None
    line: int | None = None
    byte_offset: int | None = None
    advice: str
    confidence: str = Field(description="`sure`, `likely`, `low` or `unknown`")
    suspect_rank: int | None = Field(default=None, description="the process that failed first, where the log tells")
    retryable: bool = Field(default=False, description="the same job can succeed as it is, elsewhere or later")
    facts: dict[str, str] = Field(default_factory=dict, description="what summary and advice were filled in with")
    rules_version: int
    diagnosed_at: float
