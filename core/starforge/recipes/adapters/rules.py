"""The parts of a plan that a recipe states as data: metric sources, checkpoints, completion. Pure."""

from starforge.contract.capsule import CheckpointRule, CompleteRule, MetricSource
from starforge.recipes.adapters.inputs import PlanInputs


def build_metric_sources(inputs: PlanInputs) -> tuple[MetricSource, ...]:
    """Where the curves come from."""
    return tuple(MetricSource(kind=metric.kind, path=metric.path) for metric in inputs.recipe.metrics)


def build_checkpoint_rule(inputs: PlanInputs) -> CheckpointRule:
    """How checkpoints come to be committed."""
    rule = inputs.recipe.checkpoints
    return CheckpointRule(kind=rule.kind, pattern=rule.pattern, complete=rule.complete)


def build_complete_rule(inputs: PlanInputs) -> CompleteRule:
    """When the training is complete; a total of steps that is not positive is one that the framework decides."""
    rule = inputs.recipe.completion
    total = inputs.find(rule.total_steps_parameter) if rule.total_steps_parameter else None
    steps = total if isinstance(total, int) and not isinstance(total, bool) and total > 0 else None
    return CompleteRule(kind=rule.kind, total_steps=steps, path=rule.path or None)
