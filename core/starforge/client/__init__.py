"""The client of the console's API, for notebooks and pipelines: `from starforge.client import Client`.

What it needs is imported with the first use of a name, not with this package.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starforge.client.user import Client as Client
    from starforge.client.user import Column as Column

__all__ = ["Client", "Column"]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name not in __all__:
            raise AttributeError(f"module 'starforge.client' has no attribute {name!r}")
        from starforge.client import user  # noqa: PLC0415 - pydantic and the HTTP client come with it

        return getattr(user, name)
