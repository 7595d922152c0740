import io
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest

from core.tests.cli.conftest import Sf
from core.tests.cli.test_main import COMMANDS
from core.tests.client.server import TOKEN, ConsoleState, serve
from core.tests.workspace.trees import commit_tree, write_tree
from starforge.cli.job_views import describe_asked, describe_gpus, describe_steps, shorten_digests
from starforge.cli.lazy import LazyGroup
from starforge.cli.main import root
from starforge.cli.waiting import WaitingLine
from starforge.contract.api import AttemptView, JobView

LINE = JobView(
    id="jabcdefghi",
    name="first",
    project="demo",
    user="ann",
    state="RUNNING",
    reason="started",
    desired="run",
    fleet="lab",
    gpus=1,
    attempt=1,
    submitted_at=1.0,
    state_since=2.0,
)
DIGEST = "sha256:" + "0123456789abcdef" * 4


@pytest.mark.parametrize(
    "words",
    [["job", "ls", "--state", "NOPE"], ["submit", "first"], ["ls", "--nope"], ["nope"], ["job", "show"]],
    ids=" ".join,
)
def test_a_command_line_that_cannot_be_understood_is_told_like_any_other_error(sf: Sf, words: list[str]) -> None:
    result = sf(*words, "--json")
    error = result.json["error"]
    assert (result.code, error["code"]) == (2, "usage_invalid")
    assert set(error) == {"code", "what", "why", "next_step", "refusals"}
    assert "--help" in error["next_step"]
    text = sf(*words)
    assert (text.code, text.out) == (2, "")
    assert [line.split(" ")[0] for line in text.err.splitlines()] == ["error:", "next:"]


def test_after_two_dashes_json_is_an_argument(sf: Sf) -> None:
    assert sf("ls", "--", "--json").out == ""


@pytest.mark.usefixtures("server")
def test_a_state_is_chosen_in_any_case(sf: Sf, state: ConsoleState) -> None:
    assert sf("job", "ls", "--state", "running").code == 0
    assert state.seen[-1].path == "/jobs"


@pytest.mark.parametrize("command", COMMANDS, ids=lambda found: " ".join(found[0]))
def test_help_fits_80_columns(command: tuple[tuple[str, ...], str, click.Command]) -> None:
    context = click.Context(command[2], info_name="sf " + " ".join(command[0]), terminal_width=80)
    assert [line for line in command[2].get_help(context).splitlines() if len(line) > 80] == []


def test_the_help_of_the_program_fits_80_columns() -> None:
    assert isinstance(root, LazyGroup)
    text = root.get_help(click.Context(root, info_name="sf", terminal_width=80))
    assert max(map(len, text.splitlines())) <= 80


def test_an_experiment_without_its_config_is_listed_with_what_is_wrong(sf: Sf, project: Path) -> None:
    (project / "experiments/bare").mkdir()
    (project / "experiments/.hidden").mkdir()
    (project / "experiments/note.txt").write_text("no folder")
    items = {item["name"]: item for item in sf("ls", "--json").json["items"]}
    assert set(items) == {"bare", "first"}
    assert "experiments/bare/config.yaml cannot be read" in items["bare"]["fault"]
    assert items["first"]["fault"] is None
    result = sf("ls")
    assert result.code == 0
    assert "bare" in result.out
    assert "warning: bare: experiments/bare/config.yaml" in result.err
    assert "first" not in result.err


def test_a_count_of_one_is_told_in_the_singular(sf: Sf, project: Path) -> None:
    write_tree(project, {"experiments/first/config.yaml": "image: a\nimag: x\n"})
    assert "first: 1 fault\n" in sf("validate", "first").err
    assert "first has 1 fault\n" in sf("submit", "first", "--profile", "cpu", "--dry-run").err
    write_tree(project, {"starforge.yaml": "apiVersion: forge/project/v1\nname: demo\nnam: demo\n"})
    assert "starforge.yaml has 1 fault\n" in sf("ls").err


def test_an_image_that_is_none_is_refused_by_validate_and_by_submit(sf: Sf, project: Path) -> None:
    commit_tree(project, {"experiments/first/config.yaml": "image: Not An Image\n"})
    (error,) = sf("validate", "first", "--json").json["errors"]
    assert (error["code"], error["line"], error["column"]) == ("image_invalid", 1, 8)
    assert "'Not An Image' is no image reference" in sf("submit", "first", "--profile", "cpu", "--dry-run").err


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--retries", "-1", "lifecycle.retries is -1, the least is 0"),
        ("--max-runtime", "0", "lifecycle.max_runtime_s is 0.0"),
        ("--init-from", "run/xyz", "must be run/JOB/checkpoint or run/JOB/checkpoint@step=N"),
        ("--image", "Not An Image", "is no image reference"),
        ("--train-data", "nosuch", "the project holds no such path"),
    ],
)
def test_an_option_is_blamed_for_its_own_value(sf: Sf, option: str, value: str, said: str) -> None:
    result = sf("submit", "first", "--profile", "cpu", "--dry-run", option, value)
    assert result.code == 2
    assert f"{option}: " in result.err
    assert said in result.err
    assert "config.yaml" not in result.err


@pytest.mark.usefixtures("project")
def test_data_on_the_machines_is_warned_of_and_sent(sf: Sf) -> None:
    result = sf("submit", "first", "--profile", "cpu", "--dry-run", "--train-data", "/nosuch", "--json")
    assert result.json["spec"]["spec"]["data"]["train"] == "/nosuch"
    assert "warning: --train-data: data.train is /nosuch, a path of the machines" in result.err


@pytest.mark.usefixtures("project")
def test_a_method_that_is_unknown_is_answered_in_whole_sentences(sf: Sf) -> None:
    assert "known here: custom/custom" in sf("new", "x", "--method", "nosuch").err
    assert ". `sf methods` lists them all" in sf("new", "x", "--method", "nosuch").err
    assert "did you mean 'custom/custom'? `sf methods`" in sf("new", "x", "--method", "custom/custm").err


def test_every_profile_is_named_once_at_sign_in(sf: Sf, state: ConsoleState) -> None:
    state.profiles += [{**state.profiles[0], "name": name} for name in ("cpu", "any", "cpu")]
    with serve(state) as url:
        result = sf("login", "--server", url, stdin=TOKEN + "\n")
        assert result.err == "profiles: cpu, any, h200\n"
        assert sf("login", "--server", url, "--json", stdin=TOKEN + "\n").json["profiles"] == ["h200", "cpu", "any"]


@pytest.mark.usefixtures("server", "project")
def test_a_job_is_shown_with_its_place_in_80_columns(sf: Sf, state: ConsoleState) -> None:
    words = ["submit", "first", "--profile", "cpu", "--image", f"registry.example.org/train@{DIGEST}"]
    job = sf(*words).out.strip()
    asked = sf(*words, "--fleet", "gpus").out.strip()
    assert "fleet       any fleet, not placed yet\n" in sf("job", "show", job).out
    assert "fleet       gpus, not placed yet\n" in sf("job", "show", asked).out
    state.jobs[job].attempts = [AttemptView(number=1, id="a", fleet="local", node="box-1", dequeued_at=1.0)]
    shown = sf("job", "show", job).out
    assert "fleet       local, on box-1\n" in shown
    assert "registry.example.org/train@sha256:0123456789ab\n" in shown
    assert max(map(len, shown.splitlines())) <= 80
    assert DIGEST in sf("job", "show", job, "--json").out


def test_digests_are_shortened_wherever_they_stand() -> None:
    assert shorten_digests(f"a@{DIGEST}, {DIGEST}.") == "a@sha256:0123456789ab, sha256:0123456789ab."


@pytest.mark.parametrize(
    ("step", "total", "told"),
    [(2140, 3000, "2,140 / 3,000 (71%)"), (7, None, "7"), (None, 9, "-"), (3300, 3000, "3,300 / 3,000 (100%)")],
)
def test_a_job_tells_how_far_it_has_trained(step: int | None, total: int | None, told: str) -> None:
    assert describe_steps(LINE.model_copy(update={"step": step, "total_steps": total})) == told


@pytest.mark.parametrize(
    ("gpus", "series", "got", "told"),
    [
        (0, None, (), "-"),
        (2, None, (), "any x 2"),
        (2, None, ("l40s",), "l40s x 2 (asked for any)"),
        (2, "l40s", ("l40s",), "l40s x 2"),
        (2, "h100", ("h100-pcie", "h100-sxm"), "h100-pcie + h100-sxm x 2 (asked for h100)"),
    ],
)
def test_a_job_tells_which_gpus_it_got_and_what_was_asked_where_that_differs(
    gpus: int, series: str | None, got: tuple[str, ...], told: str
) -> None:
    job = LINE.model_copy(update={"gpus": gpus, "series": series, "got_series": got})
    assert describe_asked(job) == told
    assert describe_gpus(job) == told.partition(" (")[0]


@pytest.mark.usefixtures("server", "project")
def test_a_note_of_several_lines_is_one_row_and_whole_in_a_pipe(sf: Sf, state: ConsoleState) -> None:
    job = sf("submit", "first", "--profile", "cpu").out.strip()
    state.tell(job, "first\nsecond " + "x" * 200)
    lines = sf("job", "ls").out.splitlines()
    assert len(lines) == 2
    assert lines[1].endswith("first second " + "x" * 200)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def show_all(stream: io.StringIO, monkeypatch: pytest.MonkeyPatch, told: list[tuple[float, str]]) -> str:
    """What is written when each text is told at its second."""
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "40")
    now = [0.0]
    line = WaitingLine(lambda: now[0])
    for now[0], text in told:
        line.show("PENDING", text)
    line.leave()
    return stream.getvalue()


PULL = [(float(second), f"pulling: {second}.5 of 90.0 MB") for second in range(1, 41)]


def test_in_a_pipe_a_pull_is_told_every_30_seconds_and_another_reason_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    told = [*PULL, (40.5, "the engine is away"), (41.0, "the engine is away"), (42.0, "pulling: 80.0 of 90.0 MB")]
    assert show_all(io.StringIO(), monkeypatch, told).splitlines() == [
        "── PENDING: pulling: 1.5 of 90.0 MB",
        "── PENDING: pulling: 31.5 of 90.0 MB",
        "── PENDING: the engine is away",
        "── PENDING: pulling: 80.0 of 90.0 MB",
    ]


def test_on_a_terminal_a_pull_is_written_over_every_5_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    written = show_all(Terminal(), monkeypatch, [*PULL[:11], (12.0, "away " * 20)])
    over, _, last = written.partition("\n")
    assert over.split("\r\x1b[K")[1:] == [f"── PENDING: pulling: {second}.5 of 90.0 MB" for second in (1, 6, 11)]
    assert len(last.strip().removeprefix("\x1b[K")) <= 39


# As from a terminal: whoever runs the tests in the background hands on that these signals are ignored.
WAITING = (
    "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "signal.signal(signal.SIGHUP, signal.SIG_DFL); "
)
FOLLOW = WAITING + "from starforge.cli.main import main; main(sys.argv[1:])"


@pytest.mark.usefixtures("server", "project")
def test_a_follower_whose_reader_went_away_ends_though_the_job_is_silent(sf: Sf, state: ConsoleState) -> None:
    job = sf("submit", "first", "--profile", "cpu").out.strip()
    argv = [sys.executable, "-c", FOLLOW, "job", "logs", "-f", job]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        assert "QUEUED" in process.stderr.readline()
        process.stdout.close()
        assert process.wait(timeout=30) == 1
        assert "Traceback" not in process.stderr.read()
    finally:
        process.kill()
        process.wait()
    process.stderr.close()
    assert state.jobs[job].view.state == "QUEUED"


STARTER = """
import subprocess, sys
log, holder, program, job = sys.argv[1:]
argv = [sys.executable, "-c", program, "job", "logs", "-f", job]
with open(log, "w") as out:
    child = subprocess.Popen(argv, stdout=out, stderr=subprocess.PIPE, pass_fds=[int(holder)])
child.stderr.readline()
print(child.pid, flush=True)
sys.stdin.read()
"""


@pytest.mark.usefixtures("server", "project")
def test_a_follower_ends_with_whoever_started_it(sf: Sf, tmp_path: Path) -> None:
    job = sf("submit", "first", "--profile", "cpu").out.strip()
    held, holder = os.pipe()  # it ends with the last process that has its other end: the follower
    argv = [sys.executable, "-c", STARTER, str(tmp_path / "log"), str(holder), FOLLOW, job]
    starter = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, pass_fds=[holder])
    os.close(holder)
    assert starter.stdout is not None
    follower = int(starter.stdout.readline())
    has_ended = False
    try:
        assert select.select([held], [], [], 0)[0] == []
        starter.kill()
        starter.communicate(timeout=10)
        has_ended = select.select([held], [], [], 30)[0] == [held]
        assert has_ended
    finally:
        os.close(held)
        if not has_ended:
            os.kill(follower, signal.SIGKILL)
