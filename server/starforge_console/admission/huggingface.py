"""Gate `huggingface`: the console may read every model and dataset that `hf://` names.

A hub that cannot be asked is an answer of its own: refused or admitted with a warning, as FORGE_HF_UNANSWERED says.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from starforge.contract.api import RefusalView
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

_ADMIN: Final = "ask an administrator: the console's token at the hub is FORGE_HF_TOKEN"


@dataclass(frozen=True, slots=True)
class _Said:
    """How a standing is told. `{ref}`, `{repo}`, `{kind}` and `{hub}` are filled in."""

    code: str
    what: str
    next_step: str


_SAID: Final[Mapping[HubStanding, _Said]] = MappingProxyType(
    {
        HubStanding.NOT_FOUND: _Said(
            "hub_not_found",
            "the console finds no {kind} {repo} at {hub}: it does not exist, or it is private",
            "check the name; for a private one let the account of the console's token read it",
        ),
        HubStanding.REVISION_NOT_FOUND: _Said(
            "hub_revision_not_found",
            "the {kind} {repo} has no revision {revision}",
            "name a branch, a tag or a commit that it has",
        ),
        HubStanding.GATED: _Said(
            "hub_gated",
            "the {kind} {repo} is gated, and the console's account has not been let in",
            "ask for access at {hub}/{repo} with the account of the console's token",
        ),
        HubStanding.FORBIDDEN: _Said("hub_forbidden", "the console's account may not read the {kind} {repo}", _ADMIN),
        HubStanding.TOKEN_REFUSED: _Said("hub_token_refused", "{hub} refuses the console's token", _ADMIN),
        HubStanding.DISTURBED: _Said("hub_disturbed", "{hub} cannot answer for {ref} now", "submit again later"),
        HubStanding.BLOCKED: _Said(
            "hub_blocked",
            "something between the console and {hub} refuses to pass the question for {ref} on",
            "ask an administrator to look at the proxy's rules, or at FORGE_HF_ENDPOINT",
        ),
        HubStanding.SILENT: _Said(
            "hub_silent",
            "{hub} did not answer for {ref}",
            "submit again; without a way to it, name a path below a data root instead",
        ),
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
                warnings.append(f"{refusal.what} ({refusal.why}): it is fetched once that can be asked")
            else:
                refusals.append(self._refuse(member, ref, answer, snapshot.hub_endpoint))
        return Verdict(against="; ".join(against), warnings=tuple(warnings), refusals=tuple(refusals))

    def _refuse(self, member: str, ref: HubRef, answer: HubAnswer, hub: str) -> RefusalView:
        said = _SAID[answer.standing]
        values = {"ref": str(ref), "repo": ref.repo, "kind": ref.kind, "revision": ref.revision, "hub": hub}
        return RefusalView(
            code=said.code,
            gate=self.name,
            what=f"{member}: {said.what.format_map(values)}",
            why=answer.why,
            next_step=said.next_step.format_map(values),
        )

    def _refuse_malformed(self, member: str, text: str) -> RefusalView:
        return RefusalView(
            code="hub_malformed",
            gate=self.name,
            what=f"{member}: {text!r} names nothing at a hub",
            next_step="write hf://OWNER/NAME or hf://OWNER/NAME@REVISION",
        )
