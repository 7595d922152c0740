"""The messages about a user's secrets (`/api/v1/secrets`): names and times, and the value on its way in alone."""

from pydantic import Field, SecretStr

from starforge.contract.api import Answer
from starforge.contract.jobspec import Frozen


class SetSecret(Frozen):
    """`PUT /secrets/{name}`. Setting a secret again replaces its value for whatever starts from then on."""

    value: SecretStr = Field(description="a text of 1 byte to 64 KiB in UTF-8, without NUL")


class SecretView(Answer):
    """One secret of the caller's: its name, and when it was set. No answer ever holds a value."""

    name: str
    set_at: float
    note: str = Field(default="", description="what its owner has to know of the value that was set just now")


class SecretList(Answer):
    """`GET /secrets`, by name."""

    items: tuple[SecretView, ...]
