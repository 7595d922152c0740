"""StarForge. This package root enters foreign images: standard library alone, on Python 3.8 and newer."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starforge import reporting as report

__all__ = ["__version__", "report"]
__version__ = "0.1.0+forge"

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Import `starforge.report` when it is first asked for."""
        if name != "report":
            raise AttributeError(f"module 'starforge' has no attribute {name!r}")
        import starforge.reporting  # noqa: PLC0415

        return starforge.reporting
