"""What `starforge-console vault forget-unreadable` does and prints."""

from starforge.cli.output import note
from starforge.cli.output import say as print_line
from starforge.said.sentence import say
from starforge.wording import count_of
from starforge_console.accounts.vault import Vault
from starforge_console.ledger.audit import audited
from starforge_console.ledger.database import Database
from starforge_console.ledger.sealed import drop_sealed


def forget_unreadable(ledger: Database, vault: Vault, now: float, *, is_applied: bool) -> None:
    """Print every sealed value that the key does not open; applied, each is given up. Raises VaultUnusable."""
    unreadable = vault.list_unreadable()
    if not unreadable:
        note("the key opens everything that is kept")
        return
    for row in unreadable:
        print_line(row.whose)
    count = count_of(len(unreadable), "value")
    if not is_applied:
        note(f"{count} would be given up; nothing was changed: put vault-key back if there is a copy, or add --apply")
        return
    ledger.write_now(
        audited(lambda c: drop_sealed(c, unreadable, now), say("did.secrets_forgotten", n=len(unreadable)))
    )
    note(f"{count} given up: their owners set secrets again and add webhooks anew, you set logins of registries again")
