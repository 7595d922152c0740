"""The garbage collector: what belongs to something that is gone goes as well."""

from typing import Final

from e2e.support.kube.inside import Inside
from e2e.support.kube.kinds import PODS, RAYCLUSTERS, RAYJOBS, SECRETS, SERVICES
from e2e.support.kube.status import Document

_WAITS: Final = "foregroundDeletion"
_DEPENDENTS: Final = (RAYCLUSTERS, PODS, SECRETS, SERVICES)
_OWNERS: Final = (RAYJOBS, RAYCLUSTERS, PODS)


def collect(inside: Inside) -> None:
    """Delete what lost its owner, and let go what waited for its dependents."""
    # Dependents first: an owner that is not there after them was not there before.
    dependents = [(kind, one) for kind in _DEPENDENTS for one in inside.list(kind)]
    owners = [(kind, one) for kind in _OWNERS for one in inside.list(kind)]
    living = {one["metadata"]["uid"] for _, one in owners}
    waiting = {one["metadata"]["uid"]: (kind, one) for kind, one in owners if _is_waiting(one)}
    for kind, one in dependents:
        uids = {owner["uid"] for owner in one["metadata"].get("ownerReferences") or ()}
        if uids & waiting.keys():
            for uid in uids & waiting.keys():
                del waiting[uid]
        elif not uids or uids & living:
            continue
        if "deletionTimestamp" not in one["metadata"]:
            inside.delete(kind, one)
    for kind, one in waiting.values():
        kept = [name for name in one["metadata"]["finalizers"] if name != _WAITS]
        inside.merge(kind, one, {"metadata": {"finalizers": kept}})


def own(owner: Document) -> list[Document]:
    """The reference of what belongs to `owner`."""
    metadata = owner["metadata"]
    return [
        {
            "apiVersion": owner["apiVersion"],
            "kind": owner["kind"],
            "name": metadata["name"],
            "uid": metadata["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]


def _is_waiting(one: Document) -> bool:
    return "deletionTimestamp" in one["metadata"] and _WAITS in (one["metadata"].get("finalizers") or ())
