"""The Trainer's hook and callback, in a job under the runner, with a Trainer that speaks transformers' protocol."""

import dataclasses
import sys
from pathlib import Path

import pytest

from core.tests.runner.support.attempt import Attempt, until
from starforge.contract import capsule as contract

# As much of transformers as the callback meets: the base class, the handler's list, the loop's calls and controls.
TRAINER = """
import os, time
from transformers import TrainerCallback

class Box:
    def __init__(self, **members): self.__dict__.update(members)

class Trainer:
    def __init__(self, steps, pause=0.0):
        self.steps, self.pause, self.callback_handler = steps, pause, Box(callbacks=[])
        self.args = Box(world_size=1, output_dir=os.environ["FORGE_CKPT_DIR"],
                        to_sanitized_dict=lambda: {"learning_rate": 0.1})
        self.state = Box(global_step=0, max_steps=steps, is_world_process_zero=True)
        self.control = Box(should_save=False, should_training_stop=False)
        self.log_completions, self._logs = False, None

    def add_callback(self, callback): self.callback_handler.callbacks.append(callback)

    def call(self, event, **members):
        for callback in self.callback_handler.callbacks:
            getattr(callback, event)(self.args, self.state, self.control, **members)

    def train(self):
        self.call("on_train_begin", model=None)
        while self.state.global_step < self.steps and not self.control.should_training_stop:
            self.state.global_step += 1
            time.sleep(self.pause)
            self.call("on_step_end")
            self.call("on_log", logs={"loss": 1.0 / self.state.global_step, "text": "x"})
            if self.control.should_save:
                folder = os.path.join(self.args.output_dir, "checkpoint-%d" % self.state.global_step)
                os.makedirs(folder)
                open(os.path.join(folder, "model.safetensors"), "w").write("x")
                self.call("on_save")
        self.call("on_train_end")
"""
PLAN = contract.Plan(
    argv=(), metric_sources=(contract.MetricSource("trainer"),), complete=contract.CompleteRule("steps")
)


@pytest.fixture
def image(attempt: Attempt, tmp_path: Path) -> Attempt:
    site = tmp_path / "site"
    (site / "transformers").mkdir(parents=True)
    (site / "transformers" / "__init__.py").write_text("class TrainerCallback: pass\n")
    (site / "transformers" / "trainer.py").write_text(TRAINER)
    (site / "sitecustomize.py").write_text("import builtins; builtins.image_was_here = True\n")
    attempt.environment["PYTHONPATH"] = str(site)
    return attempt


def test_any_trainer_reports_without_a_word_in_the_program(image: Attempt) -> None:
    image.python("from transformers.trainer import Trainer; Trainer(3).train(); assert image_was_here", plan=PLAN)

    assert image.run() == 0, image.log()
    assert [(line["step"], line["values"]) for line in image.metrics()] == [
        (1, {"loss": 1.0}),
        (2, {"loss": 0.5}),
        (3, {"loss": 1 / 3}),
    ]
    assert image.events("hparams")[0]["values"] == {"learning_rate": 0.1}
    assert image.record().complete is True
    assert image.events("finish") != []


def test_a_stop_lets_the_trainer_save_and_is_not_complete(image: Attempt) -> None:
    code = "from transformers.trainer import Trainer; print('ready', flush=True); Trainer(100_000, 0.01).train()"
    process = image.python(code, plan=PLAN).start()
    until(image.metrics, "a step")
    image.control("stop", grace_s=20)
    process.communicate(timeout=30)

    record = image.record()
    assert (process.returncode, record.complete, record.desired) == (0, False, "stop")
    assert record.checkpoint is not None
    assert record.checkpoint.path == f"ckpt/checkpoint-{record.checkpoint.step}"


@pytest.mark.parametrize(
    ("asked", "given"), [({}, "None"), ({contract.ENV_TRAINER_RESUMES: "1"}, "/ckpt/checkpoint-3")]
)
def test_a_program_that_forgets_its_checkpoint_gets_it_where_the_plan_asks(
    image: Attempt, asked: dict[str, str], given: str
) -> None:
    module = Path(image.environment["PYTHONPATH"], "transformers", "trainer.py")
    module.write_text(
        TRAINER.replace(
            "def train(self):", "def train(self, resume_from_checkpoint=None):\n        print(resume_from_checkpoint)"
        )
    )
    code = """
from transformers.trainer import Trainer
trainer = Trainer(1)
trainer.args.resume_from_checkpoint = "/ckpt/checkpoint-3"
trainer.train()
trainer.train(resume_from_checkpoint="/elsewhere")
"""
    assert image.python(code, plan=dataclasses.replace(PLAN, env=asked)).run() == 0, image.log()
    assert image.log().decode().split() == [given, "/elsewhere"]


def test_a_trainer_that_cannot_be_hooked_still_trains_and_a_note_says_so(image: Attempt) -> None:
    site = Path(image.environment["PYTHONPATH"])
    (site / "transformers" / "__init__.py").write_text("")
    (site / "transformers" / "trainer.py").write_text("class Trainer: pass\n")
    image.python("from transformers.trainer import Trainer; print(Trainer.__name__)", plan=PLAN)

    assert image.run() == 0
    assert image.log() == b"Trainer\n"
    assert "trainer_hook" in [event["code"] for event in image.events("note")]


def test_an_isolated_program_has_no_curve_and_a_note_says_so(image: Attempt) -> None:
    image.prepare(sys.executable, "-I", "-c", "print('trained')", plan=PLAN)
    assert image.run() == 0
    assert [event["code"] for event in image.events("note")] == ["no_trainer_metrics"]


def test_the_callback_may_be_named_by_the_program_itself(image: Attempt) -> None:
    code = """
from starforge import report
from transformers.trainer import Trainer
trainer = Trainer(2)
trainer.add_callback(report.StarForgeCallback())
trainer.train()
"""
    assert image.python(code, plan=contract.Plan(argv=())).run() == 0, image.log()
    assert [line["step"] for line in image.metrics()] == [1, 2]


def test_programs_without_a_trainer_do_not_import_transformers(image: Attempt) -> None:
    site = Path(image.environment["PYTHONPATH"])
    (site / "transformers" / "__init__.py").write_text("raise RuntimeError('imported')")
    image.python("from starforge import report; report.log({'a': 1}, step=1); print(image_was_here)", plan=PLAN)
    assert image.run() == 0, image.log()
    assert image.log() == b"True\n"


def test_a_trainer_that_logs_completions_reports_the_first_of_them(image: Attempt) -> None:
    code = """
from collections import deque
from transformers.trainer import Trainer
trainer = Trainer(1)
trainer.log_completions = True
trainer._logs = {
    "prompt": deque([[{"role": "user", "content": "p"}], "q"] * 20),
    "completion": deque(["a", "b"] * 20),
    "rewards": {"length": deque([0.5])},
    "advantages": deque([1.0]),
}
trainer.train()
"""
    assert image.python(code, plan=PLAN).run() == 0, image.log()
    (told,) = image.events("samples")
    assert (told["name"], told["step"], len(told["rows"])) == ("completions", 1, 16)
    assert told["rows"][:2] == [
        {"prompt": [{"role": "user", "content": "p"}], "completion": "a", "length": 0.5},
        {"prompt": "q", "completion": "b"},
    ]


@pytest.mark.parametrize("kept", ["None", "{}", "{'prompt': 1, 'completion': 2}", "[1]"])
def test_completions_that_are_kept_in_another_way_are_passed_over(image: Attempt, kept: str) -> None:
    code = f"""
from transformers.trainer import Trainer
trainer = Trainer(1)
trainer.log_completions, trainer._logs = True, {kept}
trainer.train()
"""
    assert image.python(code, plan=PLAN).run() == 0, image.log()
    assert image.events("samples") == []
    assert len(image.metrics()) == 1
