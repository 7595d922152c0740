"""Users, tokens and sessions of an older ledger, brought up to date by the real migrations."""

from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import create_engine

from starforge.said.sentence import say
from starforge_console.ledger.accounts import find_account
from starforge_console.ledger.audit import Asked, audited, list_acts
from starforge_console.ledger.database import Database, upgrade_schema
from starforge_console.ledger.revisions import MIGRATIONS
from starforge_console.ledger.tokens import list_tokens

OLDER = "0023"
FUTURE = 2e9
USERS = [(1, "root", "admin", 1, 1.0, None), (2, "ann", "member", 1, 1.0, "ml")]
COLUMNS = "id, user_id, kind, hash, scopes, label, created_at, expires_at, opened_by"
TOKENS = [
    (1, 1, "personal", "h1", "admin read submit", "laptop", 1.0, FUTURE, None),
    (2, 2, "session", "h2", "read submit", "", 1.0, FUTURE, 1),
]


def build_older(path: Path) -> None:
    """A ledger as the release before roles left it: an administrator, a member, and a token of each kind."""
    engine = create_engine(f"sqlite:///{path}")
    try:
        with engine.connect() as connection:
            config = Config()
            config.set_main_option("script_location", str(MIGRATIONS / "ledger"))
            config.attributes["connection"] = connection
            command.upgrade(config, OLDER)
            users, tokens = ", ".join("?" * 6), ", ".join("?" * 9)
            connection.exec_driver_sql(f"INSERT INTO users VALUES ({users})", USERS)  # noqa: S608 - question marks
            connection.exec_driver_sql(f"INSERT INTO tokens ({COLUMNS}) VALUES ({tokens})", TOKENS)  # noqa: S608 - ours
            connection.commit()
    finally:
        engine.dispose()


def test_users_and_tokens_of_before_may_do_what_they_might_and_the_audit_log_begins(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    build_older(path)
    upgrade_schema(path, "ledger")
    ledger = Database(path, "ledger")
    try:
        root = ledger.read_now(lambda c: find_account(c, "h1", "personal", 2.0))
        assert root is not None
        assert (root.user, root.administers, root.token_id) == ("root", True, 1)
        token, session = ledger.read_now(lambda c: list_tokens(c, ("personal", "session"), 2.0))[::-1]
        assert (session.opened_by, session.peer, session.agent, session.used_at) == (1, None, None, None)
        assert token.label == "laptop"
        ledger.write_now(audited(lambda _: None, say("did.signed_out")))
        assert [one.number for one in ledger.read_now(lambda c: list_acts(c, Asked(), 10))] == [1]
    finally:
        ledger.close()
