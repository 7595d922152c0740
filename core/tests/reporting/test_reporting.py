"""starforge.report as a training uses it: in a process of its own, with and without the platform."""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from core.tests.runner.support.attempt import find_interpreters
from starforge.contract import capsule as contract
from starforge.contract.bounds import LINE_BYTES
from starforge.runner.packed import NameSets

CORE = Path(contract.__file__).parents[2]


class Training:
    """Runs programs whose reports go to one file."""

    def __init__(self, root: Path) -> None:
        self.file = root / "report.jsonl"
        self.file.touch()
        self.stderr = ""

    def run(self, code: str, interpreter: str = sys.executable, **environment: str) -> str:
        """Run a program that starts with `from starforge import report`; give its stdout."""
        names = {
            "PYTHONPATH": str(CORE),
            "FORGE_REPORT_FILE": str(self.file),
            "PATH": os.environ["PATH"],
            **environment,
        }
        program = "import sys\nfrom starforge import report\n" + textwrap.dedent(code)
        command = [interpreter, "-W", "error", "-c", program]
        ran = subprocess.run(command, capture_output=True, text=True, check=False, env=names, timeout=60)
        assert ran.returncode == 0, ran.stderr
        self.stderr = ran.stderr
        return ran.stdout

    def lines(self) -> list[dict[str, Any]]:
        """Read what was reported; lines whose numbers are packed are given as the runner unpacks them."""
        names, documents = NameSets(), []
        for line in self.file.read_text().splitlines():
            document = json.loads(line)
            if "packed" in document:
                document = json.loads(names.unpack(document))
            elif "step" in document and "values" in document:
                names.learn(document)
            documents.append(document)
        return documents


@pytest.fixture
def training(tmp_path: Path) -> Training:
    return Training(tmp_path)


@pytest.mark.interpreters
@pytest.mark.parametrize("interpreter", find_interpreters())
def test_numbers_survive_whatever_they_are(training: Training, interpreter: str) -> None:
    training.run(
        """
        class Tensor:
            def item(self): return 2.5
        inf = float("inf")
        values = {"a": 0.1, "b": float("nan"), "c": inf, "d": -inf, "e": True, "f": 10**20, "g": Tensor()}
        assert report.log(values, step=7)
        assert report.log({"a": 1})
        """,
        interpreter,
    )
    first, second = training.lines()
    values = {"a": 0.1, "b": "nan", "c": "inf", "d": "-inf", "e": 1, "f": 10**20, "g": 2.5}
    assert (first["step"], first["values"]) == (7, values)
    assert second["step"] == 8


def test_names_that_come_again_are_reported_packed_and_lose_nothing(training: Training) -> None:
    training.run(
        """
        import os
        inf = float("inf")
        for step, row in enumerate([(1, 0.1), (2, float("nan")), (3, -inf), (2**40, 1e-300)]):
            assert report.log({"count": row[0], "wörd/loss": row[1]}, step=step)
        assert report.log({"count": True, "wörd/loss": "text"}, step=4)
        assert report.log({"wörd/loss": 5.0, "count": 6.0}, step=5)
        if os.fork() == 0:
            report.log({"count": 7, "wörd/loss": 7.5}, step=6)
            os._exit(0)
        os.wait()
        """
    )
    assert [line["values"] for line in training.lines()] == [
        {"count": 1, "wörd/loss": 0.1},
        {"count": 2.0, "wörd/loss": "nan"},
        {"count": 3.0, "wörd/loss": "-inf"},
        {"count": float(2**40), "wörd/loss": 1e-300},
        {"count": 1},
        {"wörd/loss": 5.0, "count": 6.0},
        {"count": 7.0, "wörd/loss": 7.5},
    ]
    assert training.file.read_text().count('"packed"') == 4


def test_ten_thousand_long_names_take_several_lines_and_lose_nothing(training: Training) -> None:
    training.run(
        """
        values = {f"model.layers.{number}.{'x' * 120}": float(number) for number in range(10_000)}
        assert report.log(values, step=1) and report.log(values, step=2)
        """
    )
    lines = training.lines()
    assert max(map(len, training.file.read_bytes().splitlines())) < LINE_BYTES
    for step in (1, 2):
        values = [value for line in lines if line["step"] == step for value in line["values"].values()]
        assert values == [float(number) for number in range(10_000)]


def test_a_training_that_makes_up_names_without_end_goes_on_reporting(training: Training) -> None:
    training.run("for step in range(400): assert report.log({f'k{step}': step}, step=step)")
    assert [line["values"] for line in training.lines()] == [{f"k{step}": step} for step in range(400)]


def test_without_a_platform_every_call_does_nothing_and_says_so(training: Training) -> None:
    code = """
    print(report.init(hparams={"a": 1}), report.log({"a": 1}, step=1), report.samples([{"a": 1}]), report.finish(),
          report.commit_checkpoint(1), report.total_steps(3), report.note("x"),
          report.checkpoint_directory(1), report.resume_from())
    """
    assert training.run(code, FORGE_REPORT_FILE="").split() == ["False"] * 7 + ["None"] * 2
    assert training.stderr == ""


def test_only_rank_zero_reports_unless_all_are_asked(training: Training) -> None:
    code = "report.log({'rank': int(__import__('os').environ['RANK'])}, step=1)"
    for rank in ("0", "1"):
        training.run(code, RANK=rank, LOCAL_RANK="0")
    assert [line["values"]["rank"] for line in training.lines()] == [0]

    training.run("report.log({'a': 1}, step=1); report.init(all_ranks=True); " + code, RANK="1")
    assert training.lines()[-1]["values"] == {"rank": 1}


def test_nothing_raises_into_the_training(training: Training) -> None:
    training.run(
        """
        class Odd:
            def item(self): raise RuntimeError("no")
            def __str__(self): raise RuntimeError("no")
        assert report.log({"a": Odd()}, step=1) is False
        assert report.log("no mapping", step=1) is False
        assert report.log({"a": "text", "b": 1}, step=1) is True
        assert report.log({"a": 1}, step="x") is False
        assert report.samples([Odd()]) is False
        """
    )
    assert [line["values"] for line in training.lines()] == [{"b": 1}]
    assert training.stderr.count("\n") == 1  # one warning in all


def test_a_report_file_that_is_gone_does_not_end_the_training(training: Training) -> None:
    assert training.run("print(report.log({'a': 1}, step=1))", FORGE_REPORT_FILE="/no/such/file").strip() == "False"
    assert "cannot be opened" in training.stderr


def test_large_lines_of_several_processes_never_mix(training: Training) -> None:
    training.run(
        """
        import os
        children = []
        for number in range(4):
            pid = os.fork()
            if pid == 0:
                for step in range(50):
                    report.log({"%d-%d" % (number, key): 1.5 for key in range(3000)}, step=step)
                os._exit(0)
            children.append(pid)
        for pid in children:
            os.waitpid(pid, 0)
        """
    )
    lines = training.lines()
    assert len(lines) == 200
    assert all(len(line["values"]) == 3000 for line in lines)


def test_a_report_that_is_too_long_is_dropped_with_a_warning(training: Training) -> None:
    training.run("assert report.note('x' * 1_100_000) is False; assert report.note('short') is True")
    assert [line["message"] for line in training.lines()] == ["short"]
    assert "it may have 1048576 at most" in training.stderr


def test_samples_and_hyperparameters_may_hold_anything(training: Training) -> None:
    training.run(
        """
        import pathlib
        report.init(hparams={"path": pathlib.Path("/x"), "deep": {"nan": float("nan"), 1: [1, (2,)]}})
        report.samples(({"prompt": "p\\n", "reward": n} for n in range(2)), step=3, name="eval")
        """
    )
    hparams, samples = training.lines()
    assert hparams["values"] == {"path": "/x", "deep": {"nan": "nan", "1": [1, [2]]}}
    assert (samples["step"], samples["name"]) == (3, "eval")
    assert samples["rows"] == [{"prompt": "p\n", "reward": 0}, {"prompt": "p\n", "reward": 1}]


def test_importing_starforge_imports_nothing_heavy(training: Training) -> None:
    loaded = training.run("print(*sorted(name for name in sys.modules))").split()
    assert not {"dataclasses", "asyncio", "ssl", "http.client", "pydantic", "transformers"} & set(loaded)


def test_a_call_costs_microseconds(training: Training) -> None:
    code = """
    import time
    values = {"loss": 0.123, "lr": 1e-5, "grad_norm": 1.5}
    report.log(values, step=0)
    best = 1e9
    for _ in range(20):
        began = time.perf_counter()
        for step in range(500):
            report.log(values, step=step)
        best = min(best, (time.perf_counter() - began) / 500)
    print(best * 1e6)
    """
    assert float(training.run(code)) < 100  # far above what it costs, so that a busy machine does not matter


def test_of_many_or_long_examples_a_part_is_reported_and_the_rest_is_counted(training: Training) -> None:
    training.run(
        """
        report.samples([{"prompt": str(n)} for n in range(100)], step=1)
        report.samples([{"prompt": "x" * 20_000}], step=2)
        report.samples([{"prompt": "\\u4f60" * 9_000, "n": n} for n in range(64)], step=3)
        report.samples([{str(n): "\\u4f60" * 9_000 for n in range(40)}], step=4)
        """
    )
    many, long, large, wide = training.lines()
    assert (len(many["rows"]), many["left_out"]) == (64, 36)
    assert long["rows"][0]["prompt"].endswith("x… [11808 more characters]")
    assert "left_out" not in long
    assert len(large["rows"]) + large["left_out"] == 64
    assert len(large["rows"]) >= 8
    assert len(wide["rows"]) == 1


@pytest.mark.parametrize(
    "call",
    [
        "init(hparams=5)",
        "samples(None)",
        "samples(5)",
        "log(None)",
        "log({'loss': 1}, step='x')",
        "total_steps(None)",
        "total_steps('many')",
        "commit_checkpoint(None)",
        "commit_checkpoint(1, 'a\\0b')",
        "checkpoint_directory('a\\0b')",
    ],
)
def test_what_cannot_be_reported_is_told_and_never_raised(training: Training, tmp_path: Path, call: str) -> None:
    shown = training.run(f"print(report.{call} or 'nothing')", FORGE_CKPT_DIR=str(tmp_path))
    assert shown == "nothing\n"
    assert "starforge.report: " in training.stderr
    assert training.stderr.endswith("the training goes on\n")


def test_hyperparameters_may_be_attributes_of_an_object(training: Training) -> None:
    training.run("import argparse; report.init(argparse.Namespace(lr=0.5, name='a'))")
    (line,) = training.lines()
    assert (line["kind"], line["values"]) == ("hparams", {"lr": 0.5, "name": "a"})
