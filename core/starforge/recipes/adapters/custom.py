"""The adapter of custom jobs: start `train.sh` in the experiment's folder and take what it reports."""

from starforge.contract.capsule import CheckpointRule, CompleteRule, MetricSource, Plan
from starforge.contract.jobspec import JobSpec
from starforge.recipes.model import Recipe


def build_plan(
    recipe: Recipe,
    spec: JobSpec,
    *,
    resume: bool,  # noqa: ARG001 - every adapter is called alike; this one leaves resuming to the script
) -> Plan:
    """The plan of a custom job. Pure.

    The script finds the newest committed checkpoint, where the attempt was given one, in `FORGE_RESUME_FROM`.
    """
    return Plan(
        argv=("bash", recipe.entry.file),
        cwd=spec.spec.entry.value,
        metric_sources=tuple(MetricSource(kind=metric.kind, path=metric.path) for metric in recipe.metrics),
        checkpoint=CheckpointRule(
            kind=recipe.checkpoints.kind, pattern=recipe.checkpoints.pattern, complete=recipe.checkpoints.complete
        ),
        complete=CompleteRule(kind=recipe.completion.kind),
    )
