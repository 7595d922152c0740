"""Gives transformers' Trainer the callback of StarForge, in any program: Python imports this by itself at its start.

Python knows one module of this name, so the image's own is run first. Nothing here may keep a training from starting.
"""

# ruff: noqa: INP001 - a directory for the module search path, no package
from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
from typing import Any, Optional, Sequence

_HERE = os.path.dirname(os.path.abspath(__file__))
_TRAINER = "transformers.trainer"


def _run_image_sitecustomize() -> None:
    """Run the sitecustomize that the image itself would have had."""
    rest = [entry for entry in sys.path if os.path.abspath(entry) != _HERE]
    found = importlib.machinery.PathFinder.find_spec("sitecustomize", rest)
    if found is None or found.loader is None:
        return
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)


class _TrainerFinder(importlib.abc.MetaPathFinder):
    """Waits for the one module; finds it by the others and adds to it once it is loaded."""

    def find_spec(self, name: str, path: Optional[Sequence[str]] = None, target: Any = None) -> Any:  # noqa: ANN401 - the import system's own
        """Give the module's own spec with a loader that adds the callback."""
        del path, target
        if name != _TRAINER:
            return None
        sys.meta_path.remove(self)
        found = importlib.util.find_spec(name)
        if found is not None and found.loader is not None:
            found.loader = _TrainerLoader(found.loader)  # type: ignore[assignment]  # it delegates everything
        return found


class _TrainerLoader:
    """The module's own loader, and the callback after it."""

    def __init__(self, loader: Any) -> None:  # noqa: ANN401 - any loader
        self._loader = loader

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the loader offers
        return getattr(self._loader, name)

    def create_module(self, spec: Any) -> Any:  # noqa: ANN401 - the import system's own
        return self._loader.create_module(spec)

    def exec_module(self, module: Any) -> None:  # noqa: ANN401 - the import system's own
        self._loader.exec_module(module)
        from starforge import report  # noqa: PLC0415 - only where a Trainer is

        report.add_to_trainer(module.Trainer)


try:
    _run_image_sitecustomize()
finally:
    if os.environ.get("FORGE_REPORT_FILE"):
        sys.meta_path.insert(0, _TrainerFinder())
