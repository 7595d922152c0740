"""What `starforge-console wheelhouse` does and prints."""

from collections.abc import Sequence
from itertools import product
from pathlib import Path

import click

from starforge.cli.output import note, print_json, print_table
from starforge.wording import describe_bytes
from starforge_console.wheels.fill import add_own, add_target, check_target, require_target
from starforge_console.wheels.index import WheelIndex, build_add_command, select_wheels
from starforge_console.wheels.lock import load_release_lock
from starforge_console.wheels.targets import TARGETS, own_target


def add_wheels(folder: Path, pythons: Sequence[str], arches: Sequence[str], own: Path | None) -> None:
    """Supply every combination of `pythons` and `arches` (none: this machine's), and our own wheels.

    Raises:
        NotFound: a combination that forgelet is not installed with.
        InputError, Unavailable: as `add_own` and `add_target`.

    """
    here = own_target()
    wanted = [
        require_target(python, arch, TARGETS)
        for python, arch in product(pythons or [here.python], arches or [here.arch])
    ]
    names, pins = add_own(folder, own), load_release_lock()
    for target in wanted:
        names += add_target(folder, target, pins)
        check_target(folder, target, pins)
        note(f"machines with Python {target.python} on {target.arch} can install forgelet")
    for name in names:
        click.echo(name)


def list_targets(folder: Path, *, as_json: bool) -> None:
    """Print for each kind of machine whether its wheels are there."""
    wheels, pins = WheelIndex(folder).list_wheels(), load_release_lock()
    selections = [select_wheels(wheels, pins, target) for target in TARGETS]
    if as_json:
        print_json(
            {
                "folder": str(folder),
                "targets": [
                    {"python": each.target.python, "arch": each.target.arch, "missing": list(each.missing)}
                    for each in selections
                ],
            }
        )
        return
    rows = [
        (
            each.target.python,
            each.target.arch,
            f"lacks {len(each.missing)} of {len(each.missing) + len(each.chosen)}" if each.missing else "ready",
            build_add_command(each.target) if each.missing else "",
        )
        for each in selections
    ]
    print_table(("PYTHON", "ARCH", "STATE", "TO SUPPLY IT"), rows)
    note(f"{folder}: {len(wheels)} files, {describe_bytes(sum(wheel.size_bytes for wheel in wheels))}")
