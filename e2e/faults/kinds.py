"""The faults that `make faults` injects: each breaks something under a running fleet; `Work.mend` brings it back."""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from e2e.support.farm import Machine
from e2e.support.work import Work

LONGEST_S: Final = 2.0
"""How long something stays frozen, cut or away."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One fault; `inject` leaves what is to be started again to `Work.mend`, and heals the rest itself."""

    name: str
    inject: Callable[[Work, Machine, random.Random], None]


def _kill_daemon(_work: Work, machine: Machine, dice: random.Random) -> None:
    machine.kill()
    _pause(dice)


def _freeze_daemon(work: Work, machine: Machine, dice: random.Random) -> None:
    work.mend()
    machine.freeze()
    _pause(dice)
    machine.thaw()


def _cut_network(_work: Work, machine: Machine, dice: random.Random) -> None:
    machine.cut()
    _pause(dice)
    machine.heal()


def _kill_engine(work: Work, machine: Machine, _dice: random.Random) -> None:
    work.mend()
    machine.engine.kill()
    machine.engine.start()


def _reboot(_work: Work, machine: Machine, _dice: random.Random) -> None:
    machine.reboot()


def _kill_console(work: Work, _machine: Machine, dice: random.Random) -> None:
    work.console.kill()
    _pause(dice)
    work.console.start()


def _kill_both(work: Work, machine: Machine, _dice: random.Random) -> None:
    work.console.kill()
    machine.kill()
    work.console.start()


def _drain(work: Work, machine: Machine, dice: random.Random) -> None:
    work.order(machine.name, "drain")
    _pause(dice)
    work.order(machine.name, "undrain")


def _mark_lost(work: Work, machine: Machine, dice: random.Random) -> None:
    machine.cut()
    try:
        work.order(machine.name, "mark-lost", confirm=machine.name)
        _pause(dice)
    finally:
        machine.heal()


def _lose_storage(work: Work, machine: Machine, dice: random.Random) -> None:
    machine.lose_storage(work.console)
    try:
        _pause(dice)
    finally:
        machine.find_storage(work.console)


def _fill_disk(_work: Work, machine: Machine, dice: random.Random) -> None:
    with machine.full("containers"):
        _pause(dice)


def _pause(dice: random.Random) -> None:
    time.sleep(dice.uniform(0, LONGEST_S))


KINDS: Final = (
    Kind("daemon-killed", _kill_daemon),
    Kind("daemon-frozen", _freeze_daemon),
    Kind("network-cut", _cut_network),
    Kind("engine-killed", _kill_engine),
    Kind("machine-rebooted", _reboot),
    Kind("console-killed", _kill_console),
    Kind("console-and-daemon-killed", _kill_both),
    Kind("drained", _drain),
    Kind("marked-lost", _mark_lost),
    Kind("storage-lost", _lose_storage),
    Kind("disk-full", _fill_disk),
)
