"""Ray: workers that died, the object store, jobs that are there twice."""

from typing import Final

from starforge.diagnosis.answer import Category, Confidence
from starforge.diagnosis.rule import Rule, Weight, error, printed, raised

RULES: Final = (
    Rule(
        kind="duplicate_submission",
        category=Category.PLATFORM_DUPLICATE_SUBMIT,
        patterns=(
            printed(
                "already exists", r"(?:RuntimeError|ValueError): .{0,300}Job with submission_id \S+ already exists"
            ),
            printed(
                "is already in use by container", r"Conflict\. The container name \"?\S+ is already in use by container"
            ),
        ),
        summary="The same attempt was handed to the backend twice; the first one runs or ran.",
        advice="This is the platform's own affair: the job is not at fault. Look at the attempt that has the name.",
        source="https://github.com/ray-project/ray/blob/master/python/ray/dashboard/modules/job/job_manager.py",
    ),
    Rule(
        kind="object_store_full",
        category=Category.RAY_OBJECT_STORE,
        patterns=(raised("ObjectStoreFullError", "ObjectStoreFullError"),),
        summary="Ray's object store is full: too many or too large objects were kept at a time.",
        advice="Keep fewer objects, send smaller batches, or give Ray a larger object_store_memory and the job more "
        "shared memory.",
        source="https://github.com/ray-project/ray/blob/master/python/ray/exceptions.py",
    ),
    Rule(
        kind="ray_too_few_gpus",
        category=Category.CONFIG_KEY,
        patterns=(
            error("Total available GPUs ", "ValueError", r"[\d.]+ is less than total desired GPUs", starts=True),
        ),
        summary="The configuration asks Ray for more GPUs than the job has.",
        advice="Set nnodes and n_gpus_per_node (or the pools) to what the job's profile gives.",
        source="https://github.com/verl-project/verl/blob/main/verl/trainer/ppo/ray_trainer.py",
    ),
    Rule(
        kind="runtime_env",
        category=Category.PATH_MISSING,
        patterns=(error("Failed to set up runtime environment", "RuntimeEnvSetupError"),),
        summary="Ray could not prepare the environment of its workers.",
        advice="The reason stands in the lines below it: a package that cannot be installed, or a working_dir that is "
        "not there.",
        source="https://docs.ray.io/en/latest/ray-core/handling-dependencies.html",
        weight=Weight.SYMPTOM,
        confidence=Confidence.LOW,
    ),
    Rule(
        kind="ray_unreachable",
        category=Category.NETWORK,
        patterns=(
            error("Could not find any running Ray instance", "ConnectionError"),
            error("Failed to connect to GCS", "RuntimeError|RpcError|RaySystemError"),
            printed("Failed to connect to GCS", r"(?:Unable|Failed) to connect to GCS at (?:address )?\S+"),
        ),
        summary="The Ray cluster could not be reached.",
        advice="Look at the first machine's log: its Ray did not start, or ended. Check the address and the firewall.",
        source="https://github.com/ray-project/ray/blob/master/python/ray/_private/services.py",
        weight=Weight.SYMPTOM,
        confidence=Confidence.LIKELY,
    ),
    Rule(
        kind="object_lost",
        category=Category.RAY_OBJECT_STORE,
        patterns=(
            raised("ObjectLostError", "ObjectLostError"),
            raised("OwnerDiedError", "OwnerDiedError"),
            raised("ObjectFetchTimedOutError", "ObjectFetchTimedOutError"),
        ),
        summary="An object of Ray is lost: the process or machine that held it is gone.",
        advice="Look for what ended that process first.",
        source="https://docs.ray.io/en/latest/ray-core/fault_tolerance/objects.html",
        weight=Weight.LAST,
        confidence=Confidence.LOW,
    ),
    Rule(
        kind="ray_actor_died",
        category=Category.RAY_ACTOR_DIED,
        patterns=(
            error("The actor died unexpectedly before finishing this task", "ActorDiedError|RayActorError"),
            error("The actor is dead because", "ActorDiedError|RayActorError|ActorUnavailableError"),
            error("The worker died unexpectedly while executing this task", "WorkerCrashedError"),
            error("Task was killed because the node it was running on", "NodeDiedError"),
        ),
        summary="A worker of Ray died, and the reason is not in this log.",
        advice="Read that worker's own log. The list of possible reasons that Ray prints is the same every time: do "
        "not take memory for it from there.",
        source="https://github.com/ray-project/ray/blob/master/python/ray/exceptions.py",
        weight=Weight.LAST,
        confidence=Confidence.LOW,
    ),
)
