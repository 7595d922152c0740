"""Gate `provenance`: it is known what runs - a clean tree or an allowed dirty one, and the very bytes are here.

What comes beside the spec to explain it has to fit it.
"""

from collections.abc import Iterator, Mapping

from starforge.contract.api import RefusalView
from starforge.contract.canonical import Json, digest_json
from starforge.contract.ids import Digest
from starforge.errors import SpecError
from starforge_console.admission.gate import Snapshot, Submission, Verdict

FILES_SHOWN = 10


class ProvenanceGate:
    """Asks for a clean tree (or leave to be dirty) and for the workspace's blob."""

    name = "provenance"

    def check(self, submission: Submission, snapshot: Snapshot) -> Verdict:
        """Pure: whether the run could be traced back to its source."""
        provenance = submission.spec.spec.provenance
        warnings = list(_warn(submission))
        workspace = submission.spec.spec.workspace
        if snapshot.blob_bytes is None and submission.is_trial:
            warnings.append(f"the workspace {workspace.digest} is not here yet: it is to be uploaded before the job")
        refusals = [
            *self._check_dirty(submission),
            *self._check_explanation(submission),
            *self._check_blob(submission, snapshot),
        ]
        return Verdict(
            against=f"commit {provenance.commit or 'none'}, workspace {workspace.digest}",
            warnings=tuple(warnings),
            refusals=tuple(refusals),
        )

    def _check_dirty(self, submission: Submission) -> list[RefusalView]:
        provenance = submission.spec.spec.provenance
        if not provenance.dirty or submission.allow_dirty:
            return []
        shown = list(provenance.dirty_files[:FILES_SHOWN])
        more = len(provenance.dirty_files) - len(shown)
        return [
            RefusalView(
                code="workspace_dirty",
                gate=self.name,
                what="the workspace has changes that no commit holds",
                why=", ".join(shown) + (f" and {more} more" if more > 0 else ""),
                next_step="commit them, or submit with --allow-dirty",
            )
        ]

    def _check_explanation(self, submission: Submission) -> list[RefusalView]:
        provenance, next_step = submission.spec.spec.provenance, "pack and submit it again; 'sf submit' does both"
        refusals = []
        if submission.difference is not None and not provenance.dirty:
            what, why = "a difference came along", "the submission says that the tree is what its commit holds"
            refusals.append(self._refuse("difference_unasked", what, why, next_step))
        if submission.config is None:
            return refusals
        told, found = provenance.config_digest, _find_digest(submission.config)
        if found != told:
            what = (
                f"the settings that came along have digest {found or 'none: they cannot be written as canonical JSON'}"
            )
            refusals.append(self._refuse("config_differs", what, f"the submission says {told or 'none'}", next_step))
        return refusals

    def _check_blob(self, submission: Submission, snapshot: Snapshot) -> list[RefusalView]:
        workspace = submission.spec.spec.workspace
        if snapshot.blob_bytes is None:
            if submission.is_trial:
                return []
            what, why = f"the workspace {workspace.digest} was not uploaded", ""
        elif snapshot.blob_bytes != workspace.bytes:
            what = f"the workspace {workspace.digest} has {snapshot.blob_bytes} bytes"
            why = f"the submission says {workspace.bytes}"
        else:
            return []
        next_step = "upload it, then submit again; 'sf submit' does both"
        return [self._refuse("workspace_missing", what, why, next_step)]

    def _refuse(self, code: str, what: str, why: str, next_step: str) -> RefusalView:
        return RefusalView(code=code, gate=self.name, what=what, why=why, next_step=next_step)


def _warn(submission: Submission) -> Iterator[str]:
    provenance = submission.spec.spec.provenance
    if provenance.commit is None:
        yield "the workspace has no commit: only its digest says what ran"
    if submission.lost_credentials:
        yield "the address of the remote came with credentials, or with a query: they are not kept"
    if not provenance.dirty or not submission.allow_dirty:
        return
    if submission.again is None:
        yield "the tree has changes that no commit holds"
    else:
        yield f"the tree has changes that no commit holds: allowed for {submission.again}, and again"
    if submission.difference is None and submission.again is None:
        yield "the difference from the commit did not come along: the packed workspace alone shows the changes"


def _find_digest(config: Mapping[str, Json]) -> Digest | None:
    try:
        return digest_json(dict(config))
    except SpecError:
        return None
