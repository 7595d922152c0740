"""What cannot train says so: data of another shape, a reward that fails, an image with another version."""

import pytest

from e2e.trl.lab import JOB_S, Lab

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(1200)]

BAD_REWARD = """def contains_solution(completions, solution, **columns):
    return [len(answer) / 0 for answer in completions]
"""


def test_a_column_that_is_not_there_is_named(lab: Lab) -> None:
    probe = lab.experiment("columns", "trl/sft")
    job = lab.train(probe, 4, *lab.data("wrong-column"))
    assert probe.wait_end(job, JOB_S)["job"]["state"] == "FAILED"
    assert "KeyError: 'text'" in probe.log(job)


def test_a_reward_function_that_fails_is_named_with_its_line(lab: Lab) -> None:
    probe = lab.experiment("rewards", "trl/grpo", {"rewards.py": BAD_REWARD})
    job = lab.train(probe, 4, num_generations=4, max_completion_length=16)
    assert probe.wait_end(job, JOB_S)["job"]["state"] == "FAILED"
    log = probe.log(job)
    assert "ZeroDivisionError: division by zero" in log
    assert '/experiments/rewards/rewards.py", line 2, in contains_solution' in log


def test_a_reward_function_that_is_not_there_is_named(lab: Lab) -> None:
    probe = lab.experiment("unrewarded", "trl/grpo")
    wrong = {"num_generations": 4, "reward_funcs": ["rewards.no_such_function"]}
    job = lab.train(probe, 4, **wrong)
    assert probe.wait_end(job, JOB_S)["job"]["state"] == "FAILED"
    assert "no_such_function" in probe.log(job)


def test_an_image_with_another_trl_is_refused_before_anything_is_loaded(lab: Lab, image_with_old_trl: str) -> None:
    probe = lab.experiment("outdated", "trl/sft")
    job = lab.train(probe, 4, *lab.data("sft"), "--image", image_with_old_trl)
    detail = probe.wait_end(job, JOB_S)
    record = lab.record(job)
    assert (detail["job"]["state"], detail["attempts"][0]["exit_code"]) == ("FAILED", 78)
    assert "needs trl >=1.16,<1.17; this image has 0.24.0 at /opt/frameworks/" in lab.told(job)
    assert (record["started_at"], record["elapsed_s"] < 5) == (None, True)
