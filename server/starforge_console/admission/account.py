"""Gate `account`: the user may submit, and has set the secrets that the job is to be given."""

from collections.abc import Sequence

from starforge.contract.api import RefusalView
from starforge.said.sentence import say
from starforge_console.admission.gate import Snapshot, Submission, Verdict

SUBMIT = "submit"


class AccountGate:
    """Asks for an active user, a token that may submit, and every secret that is named."""

    name = "account"

    def check(self, submission: Submission, snapshot: Snapshot) -> Verdict:
        """Pure: whether the account may submit this."""
        account = submission.account
        against = f"{account.user} ({account.role}; {', '.join(sorted(account.scopes))})"
        refusals = []
        if not account.active:
            refusals.append(
                RefusalView(
                    code="user_inactive",
                    gate=self.name,
                    what=say("refusal.user_inactive", user=account.user),
                    next_step=say("refusal.user_inactive_next"),
                )
            )
        if SUBMIT not in account.scopes:
            refusals.append(
                RefusalView(
                    code="scope_missing",
                    gate=self.name,
                    what=say("refusal.scope", user=account.user),
                    why=say("refusal.scope_why", scopes=", ".join(sorted(account.scopes)) or say("refusal.no_scopes")),
                    next_step=say("refusal.scope_next"),
                )
            )
        named = submission.spec.spec.secrets
        refusals += [self._refuse_secret(account.user, name) for name in named if name not in snapshot.secrets]
        message = _say_secrets(named) if named and not refusals else ""
        return Verdict(against=against, message=message, refusals=tuple(refusals))

    def _refuse_secret(self, user: str, name: str) -> RefusalView:
        return RefusalView(
            code="secret_missing",
            gate=self.name,
            what=say("refusal.secret", user=user, name=name),
            why=say("refusal.secret_why"),
            next_step=f"sf secret set {name}",
        )


def _say_secrets(named: Sequence[str]) -> str:
    names = ", ".join(named)
    return (
        say("admission.secret", names=names) if len(named) == 1 else say("admission.secrets", n=len(named), names=names)
    )
