"""Nothing in the repository may name a package host or a path of the machine it was written on."""

from pathlib import Path

import pytest

from tools.forbidden import find_violations
from tools.tests.support.trees import build_tree

# Put together here so that this file itself stays clean.
HOST = "https://" + "pypi" + ".org/simple"
OPTION = "--extra-index" + "-url "
WORKPLACE = "/wor" + "k/"


@pytest.mark.parametrize("line", [HOST, f"pip install {OPTION}x", f"cd {WORKPLACE}main", f'root = "{WORKPLACE}x"'])
def test_a_line_that_ties_us_to_a_place_is_refused_with_its_number(tmp_path: Path, line: str) -> None:
    build_tree(tmp_path, {"docs/a.md": f"fine\n{line}\n"})
    (violation,) = find_violations(tmp_path)
    assert violation.startswith("docs/a.md:2: names ")


@pytest.mark.parametrize(
    "line", [f"{{attempt}}{WORKPLACE}ckpt", f".{WORKPLACE}out", "https://console.example/install.sh"]
)
def test_a_path_inside_an_attempt_and_an_example_address_are_fine(tmp_path: Path, line: str) -> None:
    build_tree(tmp_path, {"docs/a.md": line})
    assert find_violations(tmp_path) == []


def test_a_binary_file_is_not_searched(tmp_path: Path) -> None:
    build_tree(tmp_path, {"a.bin": f"\0{HOST}"})
    assert find_violations(tmp_path) == []
