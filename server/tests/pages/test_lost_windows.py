"""A window whose time zone the console's machine has no table of any more: page, API and command say so plainly."""

import pytest
from sqlalchemy import update

from server.tests.pages.sentences import find_english
from server.tests.pages.support import form_key, sign_in
from server.tests.web.support import ConsoleUnderTest
from starforge_console.ledger.window_tables import windows
from starforge_console.web.i18n.words import CHINESE, ENGLISH


@pytest.mark.parametrize(
    ("language", "says"), [(ENGLISH, "of which this console&#39;s machine has no table any more"), (CHINESE, "时区")]
)
def test_the_page_says_plainly_that_a_time_zone_vanished(console: ConsoleUnderTest, language: str, says: str) -> None:
    headers = console.add_user("root", "admin")
    client = sign_in(console, headers)
    fields = {"kind": "team", "name": "vision", "zone": "UTC", "open": "mon-sun 00:00-24:00", "goes_on": "1"}
    key = form_key(client.get("/admin?view=windows").text)
    client.post("/admin/window", data={"form_key": key, **fields})
    assert "Nowhere/Gone" not in client.get("/admin?view=windows").text
    console.ledger.write_now(lambda c: c.execute(update(windows).values(zone="Nowhere/Gone")))
    client.cookies.set("starforge_language", language)
    page = client.get("/admin?view=windows").text
    row = page[page.index("vision") :]
    row = row[: row.index("</tr>")]
    assert says in row
    assert "Nowhere/Gone" in row
    assert language == ENGLISH or find_english(row) == []
    api = console.client(headers)
    for path in ("/api/v1/windows", "/api/v1/admin/windows"):
        told = api.get(path).json()
        (one,) = told.get("windows", told.get("items"))
        assert (one["is_open"], one["changes_at"]) == (False, None)
        assert "has no table any more" in one["lost"]
