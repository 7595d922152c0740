"""From a JobSpec to a LaunchRequest: pure, so that a test compares the whole."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from starforge.contract import capsule as c
from starforge.contract.environment import Binding, spec_to_env
from starforge.contract.ids import AttemptId, Digest, job_of, number_of
from starforge.contract.jobspec import JobSpec
from starforge.contract.launch import LaunchRequest, Mount, Network, Secret
from starforge.recipes.adapters import build_plan
from starforge.recipes.adapters.inputs import PlanInputs
from starforge.recipes.model import Recipe
from starforge_console.assembly.inputs import BoundInput, build_mounts, build_paths
from starforge_console.assembly.layout import WORKSPACE_IN_CONTAINER, AttemptLayout, StorageLayout
from starforge_console.domain.pools import build_pools


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """What the console knows of an attempt when it is assembled.

    `user` is `uid:gid`, or None for the image's own user. `resume_from` are older attempts that left checkpoints,
    newest first. `out` is where its outputs go, `earlier_out` where those went that it only reads, newest first.
    `inputs` is where what the job reads beside its workspace lies, by the member of the spec. `is_bare`: it runs
    without a container, and finds everything where it lies. `spans_ray` is what `needs_ray` said.
    """

    attempt: AttemptId
    install: str
    fleet: str
    network: Network
    user: str | None
    ingest: c.Ingest
    out: Path
    is_bare: bool = False
    spans_ray: bool = False
    usage_period_s: float | None = None
    earlier_out: Sequence[Path] = ()
    resume_from: Sequence[AttemptLayout] = ()
    inputs: Mapping[str, BoundInput] = field(default_factory=dict)


def build_capsule(spec: JobSpec, recipe: Recipe, placed: Placed, storage: StorageLayout) -> c.Capsule:
    """What the runner reads inside the container."""
    version = spec.spec.framework.version
    runtime = recipe.find_version(version) or recipe.runtimes[0]
    plan = build_plan(
        PlanInputs(
            recipe=recipe.at(version),
            runtime=runtime,
            spec=spec,
            paths=build_paths(spec, placed.inputs),
            resume=spec.spec.lifecycle.resume == "auto",
        )
    )
    modules = tuple(c.Requirement(module, specifier) for module, specifier in runtime.modules.items())
    return c.Capsule(
        version=c.CAPSULE_VERSION,
        job=job_of(placed.attempt),
        attempt=placed.attempt,
        number=number_of(placed.attempt),
        node_count=sum(pool.nodes for pool in spec.spec.resources.pools),
        spec=spec.model_dump(mode="json", exclude_none=True),
        plan=plan,
        requirements=c.Requirements(python=runtime.python, modules=modules, gpus=_find_gpus(spec, recipe)),
        workspace=c.Workspace(_find_workspace(spec, placed, storage), spec.spec.workspace.digest),
        ingest=None if placed.network is Network.NONE else placed.ingest,
        limits=c.Limits(spec.spec.lifecycle.grace_s, spec.spec.lifecycle.max_runtime_s),
        resume_from=tuple(
            str(one.checkpoints if placed.is_bare else one.checkpoints_mount) for one in placed.resume_from
        ),
        usage_period_s=placed.usage_period_s,
    )


def needs_ray(spec: JobSpec, recipe: Recipe) -> bool:
    """Whether the job's framework drives a Ray cluster over its nodes; on a single one it starts Ray by itself."""
    return bool(recipe.options.get("ray")) and sum(pool.nodes for pool in spec.spec.resources.pools) > 1


def _find_workspace(spec: JobSpec, placed: Placed, storage: StorageLayout) -> str:
    """Where the job finds its packed workspace."""
    return str(storage.blob(Digest(spec.spec.workspace.digest))) if placed.is_bare else WORKSPACE_IN_CONTAINER


def _find_gpus(spec: JobSpec, recipe: Recipe) -> int | None:
    """How many GPUs each node must see before it starts: frameworks train on without one and say nothing.

    None where nothing is asked for, where pools differ, and for custom jobs, which know best what they need.
    """
    counts = {pool.gpus_per_node for pool in spec.spec.resources.pools}
    return None if recipe.framework == "custom" or len(counts) > 1 else counts.pop() or None


def build_request(
    spec: JobSpec, placed: Placed, storage: StorageLayout, capsule_digest: Digest, secrets: Mapping[str, Secret]
) -> LaunchRequest:
    """The attempt as an executor takes it."""
    layout = storage.attempt(placed.attempt)
    job, number = job_of(placed.attempt), number_of(placed.attempt)
    binding = Binding(
        job=job,
        attempt=placed.attempt,
        number=number,
        fleet=placed.fleet,
        attempt_dir=str(layout.root),
        out_dir=str(placed.out),
        earlier_out_dirs=tuple(map(str, placed.earlier_out)),
        model_cache_dir=str(layout.root / "home" / ".cache" / "huggingface"),
        capsule_digest=capsule_digest,
    )
    return LaunchRequest(
        attempt=placed.attempt,
        job=job,
        number=number,
        install=placed.install,
        fleet=placed.fleet,
        image=spec.spec.framework.image,
        command=(f"{c.CAPSULE_MOUNT}/{c.BOOTSTRAP_FILE}",),
        workdir=str(layout.root),
        user=placed.user,
        env=spec_to_env(spec, binding),
        secrets=dict(secrets),
        mounts=_build_mounts(spec, placed, storage),
        pools=build_pools(spec),
        labels={},
        network=placed.network,
        grace_s=spec.spec.lifecycle.grace_s,
        max_runtime_s=spec.spec.lifecycle.max_runtime_s,
        shm_bytes=None,
        capsule_digest=capsule_digest,
        ingest_url=placed.ingest.url,
        spans_ray=placed.spans_ray,
    )


def _build_mounts(spec: JobSpec, placed: Placed, storage: StorageLayout) -> tuple[Mount, ...]:
    """Exactly these: the attempt, the job's outputs, its workspace, older checkpoints, inputs; never more."""
    if placed.is_bare:
        return ()
    layout = storage.attempt(placed.attempt)
    workspace = storage.blob(Digest(spec.spec.workspace.digest))
    return (
        Mount(str(layout.root), str(layout.root), read_only=False),
        Mount(str(layout.capsule), str(layout.mount), read_only=True),
        Mount(str(layout.checkpoints), str(layout.checkpoints_mount), read_only=False),
        Mount(str(placed.out), str(placed.out), read_only=False),
        *(Mount(str(one), str(one), read_only=True) for one in placed.earlier_out),
        Mount(str(workspace), WORKSPACE_IN_CONTAINER, read_only=True),
        *(Mount(str(one.checkpoints), str(one.checkpoints_mount), read_only=True) for one in placed.resume_from),
        *build_mounts(placed.inputs),
    )
