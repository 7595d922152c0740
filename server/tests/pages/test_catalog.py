"""The pages of the catalog: what is published, as the API tells it, in the reader's language."""

import re
from html import unescape

import pytest

from server.tests.pages.support import sign_in
from server.tests.web.support import ConsoleUnderTest
from starforge.recipes.catalog import load_catalog

SFT = load_catalog()["trl/sft"]
LANGUAGES = ("en", "zh-Hans")


def test_every_published_method_is_there_with_its_versions(console: ConsoleUnderTest) -> None:
    headers = console.add_user("ann")
    page = unescape(sign_in(console, headers).get("/catalog").text)
    methods = console.client(headers).get("/api/v1/methods").json()["items"]
    assert re.findall(r'href="/catalog/([a-z0-9-]+/[a-z0-9-]+)"', page) == [one["name"] for one in methods]
    for one in methods:
        assert one["summary"]["en"] in page
        assert all(f">{version}<" in page for version in one["framework_versions"])


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_methods_hyperparameters_are_explained_in_the_readers_language(
    console: ConsoleUnderTest, language: str
) -> None:
    client = sign_in(console, console.add_user("ann"))
    client.cookies.set("starforge_language", language)
    page = unescape(client.get("/catalog/trl/sft").text)
    rate = next(one for one in SFT.parameters if one.name == "learning_rate")
    assert rate.help[language] in page
    assert SFT.summary[language] in page


def test_the_page_shows_what_the_api_tells_of_that_version(console: ConsoleUnderTest) -> None:
    headers = console.add_user("ann")
    oldest = SFT.framework_versions[-1]
    detail = console.client(headers).get("/api/v1/methods/trl/sft", params={"version": oldest}).json()
    page = sign_in(console, headers).get("/catalog/trl/sft", params={"version": oldest}).text
    assert set(re.findall(r'<tr id="p-([\w.]+)">', page)) == {one["name"] for one in detail["parameters"]}
    assert f"sf new my-experiment --method trl/sft --framework-version {oldest}" in page


def test_the_newest_version_needs_no_naming(console: ConsoleUnderTest) -> None:
    page = sign_in(console, console.add_user("ann")).get("/catalog/trl/sft").text
    assert ">sf new my-experiment --method trl/sft</code>" in page


@pytest.mark.parametrize("path", ["/catalog/trl/sfd", "/catalog/trl/sft?version=0.1"])
def test_what_is_not_published_is_not_found(console: ConsoleUnderTest, path: str) -> None:
    answer = sign_in(console, console.add_user("ann")).get(path)
    assert answer.status_code == 404
    assert "not published here" in answer.text
