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
    assert sort_keys(keys)[0] == sort_keys(reversed(keys))[0] == first
    assert sorted(sort_keys(keys)) == sorted(keys)
