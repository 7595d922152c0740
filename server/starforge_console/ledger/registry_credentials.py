"""How the console signs in to registries, in the ledger: sealed, one login a registry."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

from sqlalchemy import Connection, delete, insert, select

from starforge_console.ledger.tables import registry_credentials


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryCredential:
    """The login for one registry; `sealed` is its password as the vault keeps it."""

    registry: str
    username: str
    sealed: bytes = field(repr=False)
    set_at: float
    set_by: str


def binding_of_login(registry: str, username: str) -> str:
    """What a password is sealed for: in another row, or under another name, it opens nothing."""
    return f"registry {registry} {username}"


def list_credentials(connection: Connection) -> Sequence[RegistryCredential]:
    """All of them, by registry."""
    rows = connection.execute(select(registry_credentials).order_by(registry_credentials.c.registry)).mappings().all()
    return [RegistryCredential(**row) for row in rows]


def put_credential(connection: Connection, credential: RegistryCredential) -> None:
    """Keep the login; what was kept for its registry before is replaced."""
    remove_credential(connection, credential.registry)
    connection.execute(insert(registry_credentials).values(asdict(credential)))


def remove_credential(connection: Connection, registry: str) -> bool:
    """Forget the login of a registry; gives whether there was one."""
    done = connection.execute(delete(registry_credentials).where(registry_credentials.c.registry == registry))
    return bool(done.rowcount)
