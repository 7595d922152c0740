"""Alembic's environment of the series schema: the console hands in its own connection."""

from alembic import context

from starforge_console.ledger.tables import series

context.configure(connection=context.config.attributes["connection"], target_metadata=series, render_as_batch=True)
with context.begin_transaction():
    context.run_migrations()
