"""Gate `account`: the user may submit, and has set the secrets that the job is to be given."""

from starforge.contract.api import RefusalView
from starforge.wording import count_of
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
        named = submission.spec.spec.secrets
        refusals += [self._refuse_secret(account.user, name) for name in named if name not in snapshot.secrets]
        message = f"{count_of(len(named), 'secret')}: {', '.join(named)}" if named and not refusals else ""
        return Verdict(against=against, message=message, refusals=tuple(refusals))

    def _refuse_secret(self, user: str, name: str) -> RefusalView:
        return RefusalView(
            code="secret_missing",
            gate=self.name,
            what=f"the user {user} has no secret {name}",
            why="a job is given secrets of whoever submits it, and of nobody else",
            next_step=f"sf secret set {name}",
        )
