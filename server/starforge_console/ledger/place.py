"""Where a database lies: a file of SQLite's, or a PostgreSQL server that a URL names."""

from dataclasses import dataclass
from pathlib import Path

from starforge.contract.launch import Secret


@dataclass(frozen=True, slots=True)
class Server:
    """A database of a PostgreSQL server. The URL may hold a password, so it shows nowhere."""

    url: Secret


Place = Path | Server
"""A file holds one schema; a server's database holds both, each under its own name."""
