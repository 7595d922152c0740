"""Pages that no address leads to, because only a form answers with them: each by a name, with the way there.

The ways change nothing that other tests look at: no job is stopped, and a token or a link is nobody else's.
"""

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from playwright.sync_api import Page

from e2e.pages.addresses import address_of
from tools.run import Sample

_UNKNOWN_JOB: Final = "jaaaaaaaaa"
_UNKNOWN_CODE: Final = "sfc_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"


def _ask_to_stop(page: Page, sample: Sample) -> None:
    running = address_of(sample, "running").removeprefix("/jobs/")
    page.goto("/jobs?state=RUNNING")
    page.locator(f"input[name=job][value={running}]").check()
    page.locator("button[name=do][value=stop]").click()
    page.locator(f"form.actions input[name=job][value={running}]").wait_for(state="attached")


def _stop_nothing(page: Page, sample: Sample) -> None:
    _ask_to_stop(page, sample)
    page.locator("form.actions input[name=job]").evaluate("one => one.remove()")
    page.locator("form.actions input[name=confirmed]").evaluate("one => one.remove()")
    page.locator("form.actions button.danger").click()
    page.locator("main .empty").wait_for()


def _stop_what_is_gone(page: Page, sample: Sample) -> None:
    _ask_to_stop(page, sample)
    page.locator("form.actions input[name=job]").evaluate("(one, id) => { one.value = id }", _UNKNOWN_JOB)
    page.locator("form.actions button.danger").click()
    page.locator("main .error").wait_for()


def _ask_to_pause(page: Page, sample: Sample) -> None:
    running = address_of(sample, "running").removeprefix("/jobs/")
    page.goto("/jobs?state=RUNNING")
    page.locator(f"input[name=job][value={running}]").check()
    page.locator("button[name=do][value=pause]").click()
    page.locator(f"main form[action='/jobs/pause'] [value={running}]").wait_for(state="attached")


def _pause_what_has_ended(page: Page, sample: Sample) -> None:
    ended = address_of(sample, "succeeded").removeprefix("/jobs/")
    page.goto("/jobs?state=SUCCEEDED")
    page.locator(f"input[name=job][value={ended}]").check()
    page.locator("button[name=do][value=pause]").click()
    page.locator("main #stays").wait_for()


def _resume_what_has_ended(page: Page, sample: Sample) -> None:
    ended = address_of(sample, "succeeded").removeprefix("/jobs/")
    page.goto("/jobs?state=SUCCEEDED")
    page.locator(f"input[name=job][value={ended}]").check()
    page.locator("button[name=do][value=resume]").click()
    page.locator("main .error").wait_for()


def _make_token(page: Page, sample: Sample) -> None:  # noqa: ARG001 - every way takes the sample
    page.goto("/tokens")
    page.locator("#label").fill("a notebook")
    page.locator("form[action='/tokens'] button.primary").click()
    page.locator("#made").wait_for()


def _make_no_token(page: Page, sample: Sample) -> None:  # noqa: ARG001 - as above
    page.goto("/tokens")
    page.locator("#label").fill("a notebook")
    # The browser knows the bounds too, and would not send it.
    page.locator("form[action='/tokens']").evaluate("form => { form.noValidate = true }")
    page.locator("#days").fill("0")
    page.locator("form[action='/tokens'] button.primary").click()
    page.locator("#fault").wait_for()


def _use_link(page: Page, sample: Sample) -> None:
    printed = sample.console.admin("init", "--new-link").stdout
    found = re.search(r"/signin/\S+", printed)
    assert found is not None, printed
    page.goto(found.group())
    page.locator("button.primary").click()
    page.locator("#token").wait_for()


def _use_link_twice(page: Page, sample: Sample) -> None:
    _use_link(page, sample)
    page.goto(page.url)
    page.locator("button.primary").click()
    page.locator("#again").wait_for()


def _use_no_link(page: Page, sample: Sample) -> None:  # noqa: ARG001 - as above
    page.goto(f"/signin/{_UNKNOWN_CODE}")
    page.locator("button.primary").click()
    page.locator("#again").wait_for()


def _be_refused(page: Page, sample: Sample) -> None:  # noqa: ARG001 - as above
    page.goto("/signin")
    page.locator("#token").fill("sfp_wrong")
    page.locator("button.primary").click()
    page.locator("[role=alert]").wait_for()


Way = Callable[[Page, Sample], None]

FOR_READERS: Final[Mapping[str, Way]] = MappingProxyType(
    {
        "jobs are about to be stopped": _ask_to_stop,
        "no job can be stopped": _stop_nothing,
        "a job could not be stopped": _stop_what_is_gone,
        "jobs are about to be paused": _ask_to_pause,
        "no job can be paused": _pause_what_has_ended,
        "a job could not go on": _resume_what_has_ended,
        "a token was made": _make_token,
        "no token was made": _make_no_token,
    }
)
"""Pages of somebody who is signed in."""

FOR_ANYBODY: Final[Mapping[str, Way]] = MappingProxyType(
    {
        "a link was used": _use_link,
        "a link was used twice": _use_link_twice,
        "a link is unknown": _use_no_link,
        "a token was refused": _be_refused,
    }
)
"""Pages of somebody who is not signed in yet."""
