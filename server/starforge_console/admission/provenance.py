"""Gate `provenance`: it is known what runs - a clean tree or an allowed dirty one, and the very bytes are here.

What comes beside the spec to explain it has to fit it.
"""

from collections.abc import Iterator, Mapping

from starforge.contract.api import RefusalView
from starforge.contract.canonical import Json, digest_json
from starforge.contract.ids import Digest
from starforge.errors import SpecError
from starforge.said.sentence import say
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
            warnings.append(say("admission.no_workspace", digest=workspace.digest))
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
                what=say("refusal.dirty"),
                why=say("refusal.dirty_more", files=", ".join(shown), n=more) if more > 0 else ", ".join(shown),
                next_step=say("refusal.dirty_next"),
            )
        ]

    def _check_explanation(self, submission: Submission) -> list[RefusalView]:
        provenance, next_step = submission.spec.spec.provenance, say("refusal.pack_next")
        refusals = []
        if submission.difference is not None and not provenance.dirty:
            what, why = say("refusal.difference"), say("refusal.difference_why")
            refusals.append(self._refuse("difference_unasked", what, why, next_step))
        if submission.config is None:
            return refusals
        told, found = provenance.config_digest, _find_digest(submission.config)
        if found != told:
            what = say("refusal.config", digest=found or say("refusal.config_none"))
            why = say("refusal.config_why", digest=told or say("refusal.no_digest"))
            refusals.append(self._refuse("config_differs", what, why, next_step))
        return refusals

    def _check_blob(self, submission: Submission, snapshot: Snapshot) -> list[RefusalView]:
        workspace = submission.spec.spec.workspace
        if snapshot.blob_bytes is None:
            if submission.is_trial:
                return []
            what, why = say("refusal.workspace", digest=workspace.digest), ""
        elif snapshot.blob_bytes != workspace.bytes:
            what = say("refusal.workspace_bytes", digest=workspace.digest, bytes=snapshot.blob_bytes)
            why = say("refusal.workspace_says", bytes=workspace.bytes)
        else:
            return []
        next_step = say("refusal.workspace_next")
        return [self._refuse("workspace_missing", what, why, next_step)]

    def _refuse(self, code: str, what: str, why: str, next_step: str) -> RefusalView:
        return RefusalView(code=code, gate=self.name, what=what, why=why, next_step=next_step)


def _warn(submission: Submission) -> Iterator[str]:
    provenance = submission.spec.spec.provenance
    if provenance.commit is None:
        yield say("admission.no_commit")
    if submission.lost_credentials:
        yield say("admission.credentials")
    if not provenance.dirty or not submission.allow_dirty:
        return
    if submission.again is None:
        yield say("admission.dirty")
    else:
        yield say("admission.dirty_again", job=submission.again)
    if submission.difference is None and submission.again is None:
        yield say("admission.no_difference")


def _find_digest(config: Mapping[str, Json]) -> Digest | None:
    try:
        return digest_json(dict(config))
    except SpecError:
        return None
