import pytest

from starforge.contract.curves import sort_keys


@pytest.mark.parametrize(
    ("keys", "first"),
    [
        (["accuracy", "loss"], "loss"),
        (["aux_loss", "loss"], "loss"),
        (["aux_loss", "train/loss"], "train/loss"),
        (["eval_loss", "train_loss"], "train_loss"),
        (["eval/loss", "grad_norm", "lr"], "eval/loss"),
        (["lr", "rewards/chosen"], "rewards/chosen"),
        (["learning_rate", "tlr"], "learning_rate"),
        (["b", "a"], "a"),
        (["Loss", "acc"], "Loss"),
    ],
)
def test_the_curve_that_says_most_comes_first(keys: list[str], first: str) -> None:
    points, backwards = dict.fromkeys(keys, 9), dict.fromkeys(reversed(keys), 9)
    assert sort_keys(points)[0] == sort_keys(backwards)[0] == first
    assert sorted(sort_keys(points)) == sorted(keys)


def test_what_was_reported_once_comes_after_every_curve() -> None:
    assert sort_keys({"train_loss": 1, "epoch": 8, "loss": 8}) == ["loss", "epoch", "train_loss"]


@pytest.mark.parametrize("points", [1, 8])
def test_the_metric_that_runs_are_compared_by_comes_before_all(points: int) -> None:
    assert sort_keys({"loss": 8, "reward": points}, "reward") == ["reward", "loss"]
    assert sort_keys({"loss": 8, "epoch": 8}, "reward") == ["loss", "epoch"]
