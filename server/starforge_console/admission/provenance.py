"""Gate `provenance`: it is known what runs - a clean tree or an allowed dirty one, and the very bytes are here."""

from starforge.contract.api import RefusalView
from starforge_console.admission.gate import Snapshot, Submission, Verdict

FILES_SHOWN = 10


class ProvenanceGate:
    """Asks for a clean tree (or leave to be dirty) and for the workspace's blob."""

    name = "provenance"

    def check(self, submission: Submission, snapshot: Snapshot) -> Verdict:
        """Pure: whether the run could be traced back to its source."""
        provenance = submission.spec.spec.provenance
        warnings = []
        if provenance.commit is None:
            warnings.append("the workspace has no commit: only its digest says what ran")
        if provenance.dirty and submission.allow_dirty:
            warnings.append("the tree has changes that no commit holds")
        workspace = submission.spec.spec.workspace
        if snapshot.blob_bytes is None and submission.is_trial:
            warnings.append(f"the workspace {workspace.digest} is not here yet: it is to be uploaded before the job")
        refusals = [*self._check_dirty(submission), *self._check_blob(submission, snapshot)]
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
        return [RefusalView(code="workspace_missing", gate=self.name, what=what, why=why, next_step=next_step)]
