"""The messages about the audit log (`/api/v1/admin/audit`): who did what."""

from typing import Final

from pydantic import Field

from starforge.contract.api import Answer

AUDIT_PAGE: Final = 100
"""So many entries at once where nobody says how many."""


class AuditEntry(Answer):
    """One act. No entry ever holds a secret."""

    number: int
    at: float
    user: str = Field(description="empty where nobody is known: a failed sign-in, a machine, the console itself")
    via: str = Field(description="page, api, command (on the console's machine, by its user there), node or itself")
    peer: str = Field(description="the address that the request came from; empty where there was none")
    token: int | None = Field(description="the number of the personal token or session that was used")
    act: str = Field(description="what was done, as a word for programs")
    what: str = Field(description="what was done, in English")
    values: dict[str, str | int] = Field(description="what the sentence names, by name")


class AuditList(Answer):
    """`GET /admin/audit`: the newest first."""

    items: tuple[AuditEntry, ...]
    next: int | None = Field(description="`before` of the next page; null at the end")
