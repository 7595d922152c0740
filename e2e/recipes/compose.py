"""Composes a program's configuration as its own `hydra.main` does, and prints it: `compose.py MODULE.py OVERRIDE…`."""

import ast
import json
import sys
from pathlib import Path
from typing import Any

import hydra  # type: ignore[import-not-found]  # in the Python that runs this, not here
from omegaconf import DictConfig, OmegaConf  # type: ignore[import-not-found]  # likewise


def find_arguments(program: Path) -> dict[str, Any]:
    """What the program hands to `hydra.main`."""
    for node in ast.walk(ast.parse(program.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "hydra.main":
            return {str(one.arg): ast.literal_eval(one.value) for one in node.keywords}
    message = f"{program} has no hydra.main"
    raise SystemExit(message)


def main() -> None:
    program = Path(sys.argv.pop(1)).resolve()
    arguments = find_arguments(program)
    arguments["config_path"] = str(program.parent / arguments["config_path"])

    @hydra.main(**arguments)  # type: ignore[untyped-decorator]  # likewise
    def show(config: DictConfig) -> None:
        json.dump(OmegaConf.to_container(config, resolve=False), sys.stdout)

    show()


if __name__ == "__main__":
    main()
