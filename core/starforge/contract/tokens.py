"""The messages about personal tokens and page sessions (`/api/v1/tokens`): listed and ended, never made."""

from typing import Literal

from pydantic import Field

from starforge.contract.api import Answer


class TokenView(Answer):
    """A token or session that lives. Nothing here can be used to sign in."""

    id: int
    kind: Literal["personal", "session"]
    user: str
    label: str
    scopes: tuple[str, ...]
    created_at: float
    expires_at: float
    used_at: float | None = Field(description="of a session: when it was last seen in use, to a few minutes")
    peer: str | None = Field(description="of a session: the address it was opened from")
    agent: str | None = Field(description="of a session: how the browser called itself")
    current: bool = Field(description="whether this very request carries it")


class TokenList(Answer):
    """`GET /tokens`, the newest first."""

    items: tuple[TokenView, ...]


class OthersEnded(Answer):
    """`POST /tokens/revoke-others`."""

    ended: int
