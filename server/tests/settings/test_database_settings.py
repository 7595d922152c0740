"""The address of a database server: what is wrong with it is said without any part of it."""

import pytest
from pydantic import ValidationError

from starforge_console.settings.database import DatabaseSettings


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://u:s3cret%zz@db.example.org/x",
        "postgresql://u:s3c ret@db.example.org/x",
        "postgresql://u:s3cr@t@db.example.org/x",
        "postgresql://u:s3cret\n@db.example.org/x",
        "mysql://u:s3cret@db.example.org/x",
    ],
)
def test_an_address_that_is_none_is_refused_and_shows_no_part_of_its_password(url: str) -> None:
    with pytest.raises(ValidationError) as refused:
        DatabaseSettings(database_url=url)
    (fault,) = refused.value.errors()
    assert "s3c" not in fault["msg"]
    assert "must" in fault["msg"]


@pytest.mark.parametrize(
    "url",
    ["", "postgresql:///x?host=/run/pg&user=u", "postgresql://u:a%40b%25@db:5432/x?sslmode=require", "postgres://db/x"],
)
def test_an_address_is_taken_as_it_is(url: str) -> None:
    assert DatabaseSettings(database_url=url).database_url.get_secret_value() == url
