"""Settings about signing in through an identity provider (OpenID Connect)."""

from typing import Annotated, Final, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr, model_validator

from starforge.contract.addresses import is_loopback
from starforge_console.domain.roles import Role
from starforge_console.settings.group import Group


def _issuer(text: str) -> str:
    parts = urlsplit(text)
    if text and (not parts.hostname or parts.query or parts.fragment or "@" in parts.netloc):
        message = "must be the provider's address, such as https://id.example.org/realms/team"
        raise ValueError(message)
    if text and parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(parts.hostname or "")):
        message = "must begin with https://: who reads or changes what the provider says signs in as anybody"
        raise ValueError(message)
    return text


def _roles(text: str) -> str:
    for pair in _split(text):
        group, _, role = pair.rpartition("=")
        if not group.strip() or role.strip() not in _NAMES:
            message = f"{pair!r} is no GROUP=ROLE with one of the roles {', '.join(_NAMES)}"
            raise ValueError(message)
    return text


def _split(text: str) -> list[str]:
    return [pair.strip() for pair in text.split(",") if pair.strip()]


_NAMES: Final = tuple(role.value for role in Role)


class OidcSettings(Group):
    """An identity provider that people sign in through; unset: none."""

    oidc_issuer: Annotated[str, AfterValidator(_issuer)] = Field(
        default="", description="Address of the identity provider, exactly as it names itself; unset: there is none."
    )
    oidc_client_id: str = Field(default="", description="The console's name at the provider.")
    oidc_client_secret: SecretStr | None = Field(
        default=None, description="The console's secret at the provider; unset: it is a public client, with PKCE alone."
    )
    oidc_name: str = Field(
        default="single sign-on", min_length=1, max_length=60, description="What the button of the sign-in page says."
    )
    oidc_scopes: str = Field(
        default="openid profile email", description="What is asked of the provider, separated by spaces.", min_length=1
    )
    oidc_user_claim: Literal["preferred_username", "email", "nickname", "sub"] = Field(
        default="preferred_username",
        description="Which claim names the user; of an address, which must be verified, the part before the @.",
    )
    oidc_match: Literal["none", "name"] = Field(
        default="none",
        description="Whether somebody who signs in for the first time becomes the user whom an administrator added "
        "under their name; only for a provider at which nobody chooses their name themselves.",
    )
    oidc_new_users: Literal["none", "viewer", "member"] = Field(
        default="none", description="The role of users who are added when they first sign in; none: nobody is added."
    )
    oidc_roles: Annotated[str, AfterValidator(_roles)] = Field(
        default="",
        description="Roles by groups of the provider, such as ml-admins=admin,/team/gpu=operator; of several the "
        "widest counts, anew at each sign-in. Unset: roles are given here.",
    )
    oidc_groups_claim: str = Field(
        default="groups", min_length=1, max_length=200, description="Which claim names the groups that somebody is in."
    )
    oidc_session_h: float = Field(
        default=168.0, gt=0, le=2160, description="Longest life of a session that the provider opened, in hours."
    )
    oidc_timeout_s: float = Field(default=10.0, gt=0, le=60, description="Longest wait for the provider's answers.")

    @property
    def is_set(self) -> bool:
        """Whether people may sign in through a provider."""
        return bool(self.oidc_issuer)

    @property
    def group_roles(self) -> dict[str, Role]:
        """The role that each group gives; empty where groups give none."""
        pairs = (pair.rpartition("=") for pair in _split(self.oidc_roles))
        return {group.strip(): Role(role.strip()) for group, _, role in pairs}

    @model_validator(mode="after")
    def _check_whole(self) -> Self:
        if self.is_set and not self.oidc_client_id:
            message = "FORGE_OIDC_CLIENT_ID must be set with FORGE_OIDC_ISSUER"
            raise ValueError(message)
        if self.is_set and (self.oidc_match, self.oidc_new_users, self.oidc_roles) == ("none", "none", ""):
            message = "nobody could sign in: set FORGE_OIDC_MATCH, FORGE_OIDC_NEW_USERS or FORGE_OIDC_ROLES"
            raise ValueError(message)
        if self.is_set and "openid" not in self.oidc_scopes.split():
            message = "FORGE_OIDC_SCOPES must contain openid"
            raise ValueError(message)
        return self
