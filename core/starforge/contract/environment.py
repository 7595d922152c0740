"""`spec_to_env`: the one conversion of a JobSpec into the environment of its job."""

from dataclasses import dataclass

from starforge.contract import capsule as c
from starforge.contract.ids import AttemptId, Digest, JobId
from starforge.contract.jobspec import JobSpec

DIRECTORY_VARIABLES = {
    "HOME": "home",
    "XDG_CACHE_HOME": "home/.cache",
    "TORCHINDUCTOR_CACHE_DIR": "home/.cache/torchinductor",
    "TRITON_CACHE_DIR": "home/.cache/triton",
}
"""Variables that always name a writable directory of the attempt, and its path below the attempt's directory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """What the console adds to a spec when an attempt is assembled. Paths are absolute and as seen in the container."""

    job: JobId
    attempt: AttemptId
    number: int
    fleet: str
    attempt_dir: str
    out_dir: str
    model_cache_dir: str
    capsule_digest: Digest
    user_name: str = "forge"
    node_rank: int = 0


def spec_to_env(spec: JobSpec, binding: Binding) -> dict[str, str]:
    """The environment of the job's container. Each is set here and nowhere else, but for what a machine adds."""
    below = {name: f"{binding.attempt_dir}/{path}" for name, path in DIRECTORY_VARIABLES.items()}
    platform = {
        c.ENV_JOB: binding.job,
        c.ENV_ATTEMPT: binding.attempt,
        c.ENV_ATTEMPT_NUMBER: str(binding.number),
        "FORGE_PROJECT": spec.metadata.project,
        "FORGE_EXPERIMENT": spec.metadata.name,
        "FORGE_FLEET": binding.fleet,
        "FORGE_RECIPE": spec.spec.recipe.name,
        "FORGE_GPUS": str(spec.gpus),
        c.ENV_NODE_RANK: str(binding.node_rank),
        c.ENV_OUT_DIR: binding.out_dir,
        c.ENV_CKPT_DIR: f"{binding.attempt_dir}/{c.CKPT_DIRECTORY}",
        c.ENV_CAPSULE_DIGEST: binding.capsule_digest,
    }
    offline = {"HF_HUB_OFFLINE": "1"} if _reads_the_hub(spec) else {}
    return {
        **below,
        "USER": binding.user_name,
        "LOGNAME": binding.user_name,
        "HF_HOME": binding.model_cache_dir,
        "PYTHONUNBUFFERED": "1",
        **offline,
        **platform,
    }


def _reads_the_hub(spec: JobSpec) -> bool:
    references = (spec.spec.model, spec.spec.data.train, spec.spec.data.validation)
    return any(reference is not None and reference.startswith("hf://") for reference in references)
