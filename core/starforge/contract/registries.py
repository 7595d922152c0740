"""The messages about logins at registries of images (`/api/v1/admin/registries`); a password is on its way in alone."""

from pydantic import Field, SecretStr

from starforge.contract.api import Answer
from starforge.contract.jobspec import Frozen

LONGEST_PASSWORD = 16_384
"""Characters; some clouds' tokens are long."""


class SetRegistryLogin(Frozen):
    """`PUT /admin/registries/{registry}`. It replaces the login that was kept for the registry before."""

    username: str = Field(min_length=1, max_length=255)
    password: SecretStr = Field(description="a password or an access token")


class RegistryLoginView(Answer):
    """How the console signs in to one registry. No answer ever holds a password."""

    registry: str
    username: str
    set_at: float
    set_by: str


class RegistryLoginList(Answer):
    """`GET /admin/registries`, by registry."""

    items: tuple[RegistryLoginView, ...]
