"""Which curves a job's page draws first, and what is no curve."""

from starforge.contract.results import Curve
from starforge_console.web.pages.figures import build_figure, choose_groups, choose_system

POINTS = {"train_loss": 1, "loss": 20, "eval/loss": 4, "grad_norm": 20, "epoch": 20}


def curve(key: str, *values: float) -> Curve:
    steps = tuple(range(1, len(values) + 1))
    return Curve(key=key, steps=steps, values=values, times=(0.0,) * len(values), total_points=len(values))


def test_the_primary_metric_stands_in_the_first_figure_and_single_values_in_none_at_first() -> None:
    assert choose_groups(POINTS, []) == [["loss", "eval/loss"], ["grad_norm"]]
    assert choose_groups(POINTS, [], "epoch")[0] == ["epoch"]


def test_chosen_keys_are_shown_and_unknown_ones_passed_over() -> None:
    assert choose_groups(POINTS, ["train_loss", "gone", "epoch"]) == [["epoch"], ["train_loss"]]


def test_a_value_that_was_reported_once_is_no_curve() -> None:
    assert not build_figure([curve("train_loss", 2.0)]).is_curve
    assert build_figure([curve("loss", 2.0, 1.0), curve("eval/loss", 2.0)]).is_curve


def test_the_machines_curves_are_never_chosen_for_the_training() -> None:
    points = {"system/cpu_percent": 20, "system/gpu0/power_w": 20, "system/gpu1/power_w": 20, "steps": 1}
    assert choose_groups(points, []) == [["steps"]]
    assert choose_groups(points, ["system/cpu_percent"]) == [["system/cpu_percent"]]
    assert choose_system(points) == [["system/gpu0/power_w", "system/gpu1/power_w"], ["system/cpu_percent"]]
