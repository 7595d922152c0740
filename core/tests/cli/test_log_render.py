import io
import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from starforge.cli.log_render import render
from starforge.cli.log_writers import TextLog
from starforge.errors import InputError

CONTENT = b"one\r1%\r2%\n\x1b[31m[rank1]: KeyError: 'x'\x1b[0m\nlast"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_file_is_shown_as_the_console_would(tmp_path: Path) -> None:
    file = tmp_path / "a.log"
    file.write_bytes(CONTENT)
    assert CliRunner().invoke(render, [str(file)]).output == "2%\n[rank1]: KeyError: 'x'\nlast\n"
    assert CliRunner().invoke(render, [str(file), "--rank", "1"]).output == "[rank1]: KeyError: 'x'\n"


def test_a_pipe_is_shown_and_json_tells_number_offset_and_level() -> None:
    answer = json.loads(CliRunner().invoke(render, ["-", "--json"], input=CONTENT).output)
    assert answer["bytes"] == len(CONTENT)
    assert answer["lines"][1] == {
        "number": 2,
        "offset": 10,
        "text": "[rank1]: KeyError: 'x'",
        "level": "err",
        "omitted_bytes": 0,
    }
    assert [line["text"] for line in answer["lines"]] == ["2%", "[rank1]: KeyError: 'x'", "last"]


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    result = CliRunner().invoke(render, [str(tmp_path / "none.log")])
    assert isinstance(result.exception, InputError)
    assert "none.log" in result.exception.what


def test_on_a_terminal_the_line_in_work_is_written_over(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    log = TextLog()
    for piece in (b"10%", b"\r20%", b"\r30%\nnext"):
        log.write(piece)
    log.break_line()
    log.write(b" line\n")
    log.finish()
    assert terminal.getvalue() == "10%\r\x1b[2K20%\r\x1b[2K30%\nnext\nnext line\n"


def test_a_pipe_gets_whole_lines_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = io.StringIO()
    monkeypatch.setattr(sys, "stdout", pipe)
    log = TextLog()
    for piece in (b"10%", b"\r20%", b"\nhalf"):
        log.write(piece)
        log.break_line()
    log.finish()
    assert pipe.getvalue() == "20%\nhalf\n"
