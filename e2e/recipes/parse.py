"""Parses and checks flags as a program of OpenRLHF does, without importing what it trains with: `parse.py PACKAGE
PROGRAM FLAG…`. What stands below `if __name__ == "__main__"` is run, but for its imports and the training itself.
"""

import argparse
import ast
import importlib.util
import json
import sys
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any


def find_main(program: Path) -> list[ast.stmt]:
    for node in ast.parse(program.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.If) and "__main__" in ast.unparse(node.test):
            return [one for one in node.body if not is_left_out(one)]
    message = f"{program} is no program"
    raise SystemExit(message)


def is_left_out(node: ast.stmt) -> bool:
    return isinstance(node, ast.Import | ast.ImportFrom) or ast.unparse(node).startswith("train(")


def load_hierarchize(package: Path) -> Any:  # noqa: ANN401 - a function of the wheel
    """OpenRLHF's own, where the version has it."""
    file = package / "utils" / "config.py"
    if not file.exists():
        return None
    spec = importlib.util.spec_from_file_location("config", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, "hierarchize", None)


def show(value: Any) -> Any:  # noqa: ANN401 - a parsed argument
    return {name: show(one) for name, one in vars(value).items()} if isinstance(value, SimpleNamespace) else value


def main() -> None:
    package, program = (Path(sys.argv.pop(1)) for _ in range(2))
    names: dict[str, Any] = {"argparse": argparse, "datetime": datetime, "hierarchize": load_hierarchize(package)}
    code = ast.Module(body=find_main(package / program), type_ignores=[])
    stdout, sys.stdout = sys.stdout, sys.stderr  # the program's own warnings
    exec(compile(code, str(program), "exec"), names)  # noqa: S102 - the parser of the wheel that is looked at
    sys.stdout = stdout
    parsed = names["args"]
    json.dump(show(parsed) if isinstance(parsed, SimpleNamespace) else vars(parsed), sys.stdout)


if __name__ == "__main__":
    main()
