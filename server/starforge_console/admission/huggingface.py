"""Gate `huggingface`: the console may read every model and dataset that `hf://` names.

A hub that cannot be asked is an answer of its own: refused or admitted with a warning, as FORGE_HF_UNANSWERED says.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from starforge.contract.api import RefusalView
from starforge.said.sentence import say
from starforge_console.admission.gate import Snapshot, Submission, Verdict
from starforge_console.domain.inputs import (
    HUB_SCHEME,
    START,
    UNANSWERED,
    HubAnswer,
    HubInput,
    HubRef,
    HubStanding,
    describe_input,
    find_hub_ref,
    find_named,
)

CODES: Final[Mapping[HubStanding, str]] = MappingProxyType(
    {
        HubStanding.NOT_FOUND: "hub_not_found",
        HubStanding.REVISION_NOT_FOUND: "hub_revision_not_found",
        HubStanding.GATED: "hub_gated",
        HubStanding.FORBIDDEN: "hub_forbidden",
        HubStanding.TOKEN_REFUSED: "hub_token_refused",
        HubStanding.DISTURBED: "hub_disturbed",
        HubStanding.BLOCKED: "hub_blocked",
        HubStanding.SILENT: "hub_silent",
    }
)


class HuggingFaceGate:
    """Asks for models and datasets that exist and may be read."""

    name = "huggingface"

    def check(self, submission: Submission, snapshot: Snapshot) -> Verdict:
        """Pure: whether the hub's answers let the job have what it names."""
        refusals, warnings, against = [], [], []
        for member, text in find_named(submission.spec).items():
            if member == START or not text.startswith(HUB_SCHEME):
                continue
            ref, answer = find_hub_ref(member, text), snapshot.hub.get(member)
            if ref is None or answer is None:
                refusals.append(self._refuse_malformed(member, text))
            elif answer.standing is HubStanding.READABLE:
                against.append(f"{member}: {describe_input(HubInput(ref, answer.commit))}")
            elif answer.standing in UNANSWERED and snapshot.hub_unanswered == "warn":
                refusal = self._refuse(member, ref, answer, snapshot.hub_endpoint)
                warnings.append(say("admission.hub_later", what=refusal.what, why=refusal.why))
            else:
                refusals.append(self._refuse(member, ref, answer, snapshot.hub_endpoint))
        return Verdict(against="; ".join(against), warnings=tuple(warnings), refusals=tuple(refusals))

    def _refuse(self, member: str, ref: HubRef, answer: HubAnswer, hub: str) -> RefusalView:
        what, next_step = _tell(answer.standing, ref, hub)
        return RefusalView(
            code=CODES[answer.standing],
            gate=self.name,
            what=say("refusal.of_member", member=member, what=what),
            why=answer.why,
            next_step=next_step,
        )

    def _refuse_malformed(self, member: str, text: str) -> RefusalView:
        return RefusalView(
            code="hub_malformed",
            gate=self.name,
            what=say("refusal.of_member", member=member, what=say("refusal.hub_malformed", text=repr(text))),
            next_step=say("refusal.hub_malformed_next"),
        )


def _tell(standing: HubStanding, ref: HubRef, hub: str) -> tuple[str, str]:
    """What is said of a reference that stands so, and what is advised."""
    kind, repo = ref.kind, ref.repo
    match standing:
        case HubStanding.NOT_FOUND:
            what, next_step = (
                say("refusal.hub_not_found", kind=kind, repo=repo, hub=hub),
                say("refusal.hub_not_found_next"),
            )
        case HubStanding.REVISION_NOT_FOUND:
            what = say("refusal.hub_revision", kind=kind, repo=repo, revision=str(ref.revision))
            next_step = say("refusal.hub_revision_next")
        case HubStanding.GATED:
            what, next_step = (
                say("refusal.hub_gated", kind=kind, repo=repo),
                say("refusal.hub_gated_next", hub=hub, repo=repo),
            )
        case HubStanding.FORBIDDEN:
            what, next_step = say("refusal.hub_forbidden", kind=kind, repo=repo), say("refusal.hub_token_next")
        case HubStanding.TOKEN_REFUSED:
            what, next_step = say("refusal.hub_token", hub=hub), say("refusal.hub_token_next")
        case HubStanding.DISTURBED:
            what, next_step = say("refusal.hub_disturbed", hub=hub, ref=str(ref)), say("refusal.hub_disturbed_next")
        case HubStanding.BLOCKED:
            what, next_step = say("refusal.hub_blocked", hub=hub, ref=str(ref)), say("refusal.hub_blocked_next")
        case _:
            what, next_step = say("refusal.hub_silent", hub=hub, ref=str(ref)), say("refusal.hub_silent_next")
    return what, next_step
