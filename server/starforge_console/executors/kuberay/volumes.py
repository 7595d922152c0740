"""Which claim, and which folder in it, stands for what a job has mounted: pure."""

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from starforge.contract.launch import LaunchRequest, Mount
from starforge.errors import LaunchRefused
from starforge.said.sentence import say, say_list
from starforge_console.executors.kuberay.settings import Claim


def build_mounts(
    request: LaunchRequest, claims: Mapping[str, Claim]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The pod's volumes, one a claim, and its container's mounts of them.

    Raises LaunchRefused for what lies in no claim, and for a workdir that nothing mounts.
    """
    if not any(_find_below(request.workdir, mount.target) is not None for mount in request.mounts):
        raise LaunchRefused(say("kuberay.no_workdir", folder=request.workdir), why=say("kuberay.no_workdir_why"))
    names: dict[str, str] = {}
    mounts = []
    for mount in sorted(request.mounts, key=lambda one: one.target):
        claim, path = _find_claim(mount, claims)
        name = names.setdefault(claim.name, f"claim-{len(names)}")
        mounts.append(_build_mount(name, path, mount))
    volumes = [{"name": name, "persistentVolumeClaim": {"claimName": claim}} for claim, name in names.items()]
    return volumes, mounts


def _build_mount(name: str, path: str, mount: Mount) -> dict[str, Any]:
    built: dict[str, Any] = {"name": name, "mountPath": mount.target}
    if path:
        built["subPath"] = path
    if mount.read_only:
        built["readOnly"] = True
    return built


def _find_claim(mount: Mount, claims: Mapping[str, Claim]) -> tuple[Claim, str]:
    """The claim of the deepest folder that the source lies below, and where in the claim it lies."""
    for folder in sorted(claims, key=len, reverse=True):
        below = _find_below(mount.source, folder)
        if below is not None:
            claim = claims[folder]
            parts = [part for part in (claim.path.strip("/"), below) if part]
            return claim, "/".join(parts)
    raise LaunchRefused(
        say("kuberay.no_claim", folder=mount.source),
        why=say("kuberay.no_claim_why", folders=say_list("list.comma", sorted(claims))),
        next_step=say("kuberay.no_claim_next"),
    )


def _find_below(path: str, folder: str) -> str | None:
    """The path as seen from the folder, empty for the folder itself; None where it lies elsewhere."""
    try:
        found = str(PurePosixPath(path).relative_to(PurePosixPath(folder)))
    except ValueError:
        return None
    return "" if found == "." else found
