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
USER_NAME = "forge"
"""What the job's user is called, whom the image's own passwd seldom knows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """What the console adds to a spec when an attempt is assembled. Paths are absolute and as seen in the container."""

    job: JobId
    attempt: AttemptId
    number: int
    fleet: str
    attempt_dir: str
    out_dir: str
    earlier_out_dirs: tuple[str, ...] = ()
    """What earlier attempts left in other folders, newest first, to be read alone."""
    model_cache_dir: str
    capsule_digest: Digest


def spec_to_env(spec: JobSpec, binding: Binding) -> dict[str, str]:
    """The environment of the job's container. Each is set here and nowhere else, but for what a machine adds."""
    below = {name: f"{binding.attempt_dir}/{path}" for name, path in DIRECTORY_VARIABLES.items()}
    platform = {
        c.ENV_JOB: binding.job,
        c.ENV_ATTEMPT: binding.attempt,
        c.ENV_ATTEMPT_NUMBER: str(binding.number),
        c.ENV_PROJECT: spec.metadata.project,
        c.ENV_EXPERIMENT: spec.metadata.name,
        c.ENV_FLEET: binding.fleet,
        c.ENV_RECIPE: spec.spec.recipe.name,
        c.ENV_GPUS: str(spec.gpus),
        c.ENV_OUT_DIR: binding.out_dir,
        c.ENV_CKPT_DIR: f"{binding.attempt_dir}/{c.CKPT_DIRECTORY}",
        c.ENV_CAPSULE_DIGEST: binding.capsule_digest,
    }
    if binding.earlier_out_dirs:
        platform[c.ENV_EARLIER_OUT_DIRS] = ":".join(binding.earlier_out_dirs)
    offline = {"HF_HUB_OFFLINE": "1"} if _reads_the_hub(spec) else {}
    return {
        **below,
        "USER": USER_NAME,
        "LOGNAME": USER_NAME,
        "HF_HOME": binding.model_cache_dir,
        "PYTHONUNBUFFERED": "1",
        **offline,
        **platform,
    }


def _reads_the_hub(spec: JobSpec) -> bool:
    references = (spec.spec.model, spec.spec.data.train, spec.spec.data.validation)
    return any(reference is not None and reference.startswith("hf://") for reference in references)
