import re

import pytest
from starlette.testclient import TestClient

from server.tests.pages.support import sign_in
from server.tests.web.lives import begin, clean, go
from server.tests.web.support import ConsoleUnderTest, submit
from starforge.contract.states import Reason
from starforge.wording import describe_bytes, describe_duration
from starforge_console.web.i18n.words import CHINESE, ENGLISH, load_words
from starforge_console.web.pages import formats


@pytest.mark.parametrize("seconds", [0, 59, 95, 3600, 11_530, 190_000])
def test_pages_tell_lengths_of_time_and_sizes_as_sf_does(seconds: int) -> None:
    written = formats.write_time(load_words(ENGLISH), seconds)
    assert written == describe_duration(seconds).replace(" ", formats.SPACE)
    assert formats.size(seconds) == describe_bytes(seconds).replace(" ", formats.SPACE)


def test_chinese_pages_tell_lengths_of_time_in_chinese() -> None:
    words = load_words(CHINESE)
    written = [formats.write_time(words, seconds, units) for seconds, units in ((190_000, 2), (95, 2), (3700, 1))]
    assert [text.replace(formats.SPACE, " ") for text in written] == ["2 天 4 小时", "1 分 35 秒", "1 小时"]


@pytest.mark.parametrize(("language", "unit"), [(ENGLISH, "s"), (CHINESE, "秒")], ids=["English", "Chinese"])
def test_the_times_of_a_page_are_in_its_language(console: ConsoleUnderTest, language: str, unit: str) -> None:
    page = _open(console, language).get("/jobs").text
    assert set(re.findall(r">\d+\u00a0(\w+)<", page)) == {unit}
    assert f'data-units="{formats.units_of(load_words(language))}"' in page


def _open(console: ConsoleUnderTest, language: str) -> TestClient:
    headers = console.add_user("ada")
    ended = go(console, begin(console, submit(console, headers)), Reason.EXITED_ZERO)
    assert ended.attempt is not None
    clean(console, ended.attempt)
    client = sign_in(console, headers)
    client.cookies.set("starforge_language", language)
    return client
