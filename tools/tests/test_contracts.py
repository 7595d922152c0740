"""Import contracts grow with the code and do not shrink."""

from pathlib import Path

from tools.contracts import ALWAYS, find_violations
from tools.tests.support.trees import build_tree

CAPSULE = {"core/starforge/contract/capsule.py": "", "core/starforge/runner/__init__.py": ""}
IN_IMAGE = 'source_modules = ["starforge.contract.capsule", "starforge.runner"]'


def _contracts(*more: str, leave_out: str = "") -> str:
    tables = [f'[[tool.importlinter.contracts]]\nid = "{name}"' for name in ALWAYS if name != leave_out]
    tables = [table + (f"\n{IN_IMAGE}" if "in-image" in table else "") for table in tables]
    return "\n".join([*tables, *more, ""])


def _sql(libraries: str) -> str:
    return f'[[tool.importlinter.contracts]]\nid = "sql-in-ledger-only"\nprotected_modules = [{libraries}]'


def test_contracts_that_fit_the_code_are_fine(tmp_path: Path) -> None:
    build_tree(tmp_path, {**CAPSULE, "pyproject.toml": _contracts()})
    assert find_violations(tmp_path) == []


def test_a_contract_that_was_taken_out_is_refused(tmp_path: Path) -> None:
    build_tree(tmp_path, {**CAPSULE, "pyproject.toml": _contracts(leave_out="no-cycles")})
    assert find_violations(tmp_path) == ["import contract no-cycles is missing from pyproject.toml"]


def test_the_first_import_of_sqlalchemy_asks_for_its_contract(tmp_path: Path) -> None:
    ledger = {"server/starforge_console/ledger/tables.py": "from sqlalchemy import Table\n"}
    build_tree(tmp_path, {**CAPSULE, **ledger, "pyproject.toml": _contracts()})
    (violation,) = find_violations(tmp_path)
    assert violation.startswith(
        "import contract sql-in-ledger-only: protected_modules is [], what is there is ['sqlalchemy']"
    )
    build_tree(tmp_path, {"pyproject.toml": _contracts(_sql('"sqlalchemy"'))})
    assert find_violations(tmp_path) == []


def test_a_library_that_nobody_imports_stops_the_linter_and_is_refused(tmp_path: Path) -> None:
    build_tree(tmp_path, {**CAPSULE, "pyproject.toml": _contracts(_sql('"sqlalchemy"'))})
    assert len(find_violations(tmp_path)) == 1


def test_a_second_executor_asks_for_their_independence(tmp_path: Path) -> None:
    executors = "server/starforge_console/executors"
    build_tree(tmp_path, {**CAPSULE, f"{executors}/local.py": "", "pyproject.toml": _contracts()})
    assert find_violations(tmp_path) == []
    build_tree(tmp_path, {f"{executors}/node/__init__.py": ""})
    (violation,) = find_violations(tmp_path)
    assert "executors-independent" in violation
    assert "executors.node" in violation


def test_a_file_that_enters_images_must_stand_in_the_contract(tmp_path: Path) -> None:
    build_tree(tmp_path, {**CAPSULE, "core/starforge/reporting.py": "", "pyproject.toml": _contracts()})
    (violation,) = find_violations(tmp_path)
    assert "in-image-is-standard-library" in violation
    assert "starforge.reporting" in violation


def test_a_layer_that_the_page_on_architecture_leaves_out_is_refused(tmp_path: Path) -> None:
    contracts = _contracts().replace('id = "core-layers"', 'id = "core-layers"\nlayers = ["(cli)", "client | trust"]')
    page = "| core | holds |\n|---|---|\n| `cli` | the command |\n| `client` | the API, and `trust` |\n"
    build_tree(tmp_path, {**CAPSULE, "pyproject.toml": contracts, "docs/dev/architecture.md": page})
    assert find_violations(tmp_path) == [
        "docs/dev/architecture.md: its tables of layers lack trust, which pyproject.toml has"
    ]
    build_tree(tmp_path, {"docs/dev/architecture.md": page.replace("`client`", "`client`, `trust`")})
    assert find_violations(tmp_path) == []
