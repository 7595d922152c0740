"""A console whose pages a test reads as a browser without scripts does."""

import re

from starlette.testclient import TestClient

from server.tests.web.support import ConsoleUnderTest


def form_key(page: str) -> str:
    """The key that the forms of `page` carry."""
    found = re.search(r'name="form_key" value="([0-9a-f]{64})"', page)
    assert found is not None, page
    return found[1]


def sign_in(console: ConsoleUnderTest, headers: dict[str, str]) -> TestClient:
    """A client with the session of whoever `headers` speak for."""
    client = console.client()
    token = headers["Authorization"].removeprefix("Bearer ")
    page = client.post("/signin", data={"form_key": form_key(client.get("/signin").text), "token": token})
    assert page.url.path == "/overview", page.text
    return client
