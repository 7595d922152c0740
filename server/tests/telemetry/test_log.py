import io
import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from starforge.contract.launch import Secret
from starforge_console.settings.console import LogFormat
from starforge_console.telemetry.log import set_up_log

TOKEN = "sfp_" + "x" * 43


@pytest.fixture
def out() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    yield io.StringIO()
    root.handlers[:] = before
    root.setLevel(level)
    structlog.reset_defaults()


def entries(out: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in out.getvalue().splitlines()]


def test_an_entry_is_one_line_of_json(out: io.StringIO) -> None:
    set_up_log(LogFormat.JSON, "info", out)
    structlog.get_logger().info("job admitted", job="j1", gpus=8)
    (entry,) = entries(out)
    assert (entry["event"], entry["level"], entry["job"], entry["gpus"]) == ("job admitted", "info", "j1", 8)


def test_what_is_below_the_level_is_not_written(out: io.StringIO) -> None:
    set_up_log(LogFormat.JSON, "warning", out)
    structlog.get_logger().info("quiet")
    structlog.get_logger().warning("loud")
    assert [entry["event"] for entry in entries(out)] == ["loud"]


@pytest.mark.parametrize("log_format", list(LogFormat))
def test_a_secret_is_never_written(out: io.StringIO, log_format: LogFormat) -> None:
    set_up_log(log_format, "info", out)
    log = structlog.get_logger()
    log.info(
        "asked",
        said=f"with {TOKEN}",
        token=TOKEN,
        header=f"Bearer {TOKEN}",
        nested={"password": "hunter2", "a": [TOKEN]},
    )
    log.info("link", url=f"http://x/signin/{'y' * 43}", secret=Secret("hunter2"))
    logging.getLogger("library").warning("failed with %s", TOKEN)
    log.error("broken", exc_info=ValueError(TOKEN))
    written = out.getvalue()
    assert written.count("***") >= 7
    for secret in (TOKEN, "x" * 43, "hunter2", "y" * 43):
        assert secret not in written


def test_libraries_are_heard_from_warnings_on(out: io.StringIO) -> None:
    set_up_log(LogFormat.JSON, "debug", out)
    logging.getLogger("uvicorn.error").info("Started server process")
    logging.getLogger("uvicorn.error").error("broken %d", 7)
    assert [(entry["event"], entry["level"]) for entry in entries(out)] == [("broken 7", "error")]
