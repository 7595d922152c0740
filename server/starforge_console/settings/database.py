"""Where the databases lie: a part of the paths."""

from typing import Annotated, Final

from pydantic import AfterValidator, Field, SecretStr

from starforge_console.settings.group import Group

SCHEMES: Final = ("postgresql://", "postgres://")


def _url(value: SecretStr) -> SecretStr:
    if value.get_secret_value() and not value.get_secret_value().startswith(SCHEMES):
        message = "must begin with postgresql://"
        raise ValueError(message)
    return value


class DatabaseSettings(Group):
    """Where ledger and series lie."""

    database_url: Annotated[SecretStr, AfterValidator(_url)] = Field(
        default=SecretStr(""),
        description="PostgreSQL 15 or newer, such as postgresql://starforge@db.example.org/starforge; unset: SQLite in "
        "the state directory.",
    )
