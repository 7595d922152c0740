"""Gate `account`: the user may submit."""

from starforge.contract.api import RefusalView
from starforge_console.admission.gate import Snapshot, Submission, Verdict

SUBMIT = "submit"


class AccountGate:
    """Asks for an active user and a token that may submit."""

    name = "account"

    def check(self, submission: Submission, snapshot: Snapshot) -> Verdict:  # noqa: ARG002 - the protocol's parameter
        """Pure: whether the account may submit at all."""
        account = submission.account
        against = f"{account.user} ({account.role}; {', '.join(sorted(account.scopes))})"
        refusals = []
        if not account.active:
            refusals.append(
                RefusalView(
                    code="user_inactive",
                    gate=self.name,
                    what=f"the user {account.user} is deactivated",
                    next_step="ask an administrator",
                )
            )
        if SUBMIT not in account.scopes:
            refusals.append(
                RefusalView(
                    code="scope_missing",
                    gate=self.name,
                    what=f"the token of {account.user} may not submit",
                    why=f"its scopes are {', '.join(sorted(account.scopes)) or 'none'}",
                    next_step="sign in with a token that has the scope 'submit'",
                )
            )
        return Verdict(against=against, refusals=tuple(refusals))
