"""Every page of the console, by a name for it."""

from tools.run import Sample
from tools.run_fleet import SAMPLE_FLEET

VIEWS = ("windows", "registries", "hardware", "maintenance", "retention")
"""Of the administration, beside its first one."""

NAMES = (
    "overview",
    "queue",
    "queue-empty",
    "jobs",
    "plain",
    "empty",
    "queued",
    "pending",
    "running",
    "failed",
    "retrying",
    "succeeded",
    "stopped",
    "outputs",
    "samples",
    "config",
    "admission",
    "lineage",
    "history",
    "compare",
    "fleets",
    "fleet",
    "new-fleet",
    "drain",
    "undrain",
    "remove",
    "mark-lost",
    "catalog",
    "method",
    "account",
    "tokens",
    "admin",
    "admin-windows",
    "admin-registries",
    "admin-hardware",
    "admin-maintenance",
    "admin-retention",
    "admin-plan",
    "missing",
)


def address_of(sample: Sample, name: str) -> str:
    """The path of a page of the sample."""
    jobs, fleet = sample.jobs, f"/fleets/{SAMPLE_FLEET}"
    return {
        "overview": "/overview",
        "queue": "/queue",
        "queue-empty": "/queue?series=h200",
        "jobs": "/jobs",
        "plain": "/jobs?group=none",
        "empty": "/jobs?q=no-such-job-anywhere",
        "queued": f"/jobs/{jobs['grpo-code-warmstart']}",
        "pending": f"/jobs/{jobs['kto-tone-zh']}",
        "running": f"/jobs/{jobs['qwen3-14b-sft-support']}",
        "failed": f"/jobs/{jobs['dpo-helpful-v2']}",
        "retrying": f"/jobs/{jobs['eval-longbench-nightly']}",
        "succeeded": f"/jobs/{jobs['sft-support-baseline']}",
        "stopped": f"/jobs/{jobs['reward-pairwise']}",
        "outputs": f"/jobs/{jobs['sft-support-baseline']}?view=outputs",
        "samples": f"/jobs/{jobs['sft-support-baseline']}?view=samples",
        "config": f"/jobs/{jobs['sft-support-baseline']}?view=config",
        "admission": f"/jobs/{jobs['sft-support-baseline']}?view=admission",
        "lineage": f"/jobs/{jobs['sft-support-baseline']}?view=lineage",
        "history": f"/jobs/{jobs['sft-support-baseline']}?view=history",
        "compare": f"/compare?job={jobs['sft-support-baseline']}&job={jobs['dpo-helpful-v2']}&all=1",
        "fleets": "/fleets",
        "fleet": fleet,
        "new-fleet": "/new-fleet",
        **{act: f"{fleet}/nodes/{sample.node}/{act}" for act in ("drain", "undrain", "remove", "mark-lost")},
        "catalog": "/catalog",
        "method": "/catalog/trl/sft",
        "account": "/account",
        "tokens": "/tokens",
        "admin": "/admin",
        **{f"admin-{view}": f"/admin?view={view}" for view in VIEWS},
        "admin-plan": "/admin?view=retention&plan=1",
        "missing": "/jobs/jaaaaaaaaa",
    }[name]
