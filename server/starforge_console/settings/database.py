"""Where the databases lie: a part of the paths."""

import re
from typing import Annotated, Final

from pydantic import AfterValidator, Field, SecretStr

from starforge_console.settings.group import Group

SCHEMES: Final = ("postgresql://", "postgres://")


_ESCAPE: Final = re.compile("%(?![0-9A-Fa-f]{2})")


def _url(value: SecretStr) -> SecretStr:
    """The address. What is said of a wrong one holds nothing of it: libpq's own words would hold the password."""
    text = value.get_secret_value()
    if text and not text.startswith(SCHEMES):
        message = "must begin with postgresql://"
        raise ValueError(message)
    place = text.partition("://")[2].partition("/")[0].partition("?")[0]
    if place.count("@") > 1 or _ESCAPE.search(text) or any(sign.isspace() or not sign.isprintable() for sign in text):
        message = "must have each sign of user and password that is no letter or digit as %XX: %40 for @, %25 for %"
        raise ValueError(message)
    return value


class DatabaseSettings(Group):
    """Where ledger and series lie."""

    database_url: Annotated[SecretStr, AfterValidator(_url)] = Field(
        default=SecretStr(""),
        description="PostgreSQL 15 or newer, such as postgresql://starforge@db.example.org/starforge; unset: SQLite in "
        "the state directory.",
    )
