"""Alembic's environment of the ledger schema: the console hands in its own connection."""

from alembic import context

from starforge_console.ledger.tables import ledger

context.configure(connection=context.config.attributes["connection"], target_metadata=ledger, render_as_batch=True)
with context.begin_transaction():
    context.run_migrations()
