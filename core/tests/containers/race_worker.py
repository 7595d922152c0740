"""Launches short jobs until it is killed: race_worker.py SOCKET ROOT SECRETS_ROOT LOCKS GPUS."""

import itertools
import random
import sys
from pathlib import Path

from core.tests.containers.builders import make_host, make_request, make_settings
from starforge.containers.engine import Engine
from starforge.containers.gpus import MadeUpGpus
from starforge.errors import BackendUnreachable, NoCapacity


def main(socket_path: str, root: Path, secrets_root: Path, locks: Path, gpus: int) -> None:
    chance = random.Random()
    host = make_host(
        Engine(socket_path), make_settings(root, secrets_root, lock_dir=locks), MadeUpGpus(gpus, "Test GPU", "n1")
    )
    for _ in itertools.count():
        script = chance.choice(("true", "sleep 0.1", "sleep 0.4"))
        try:
            host.launch(make_request(root / "jobs", script))
        except (NoCapacity, BackendUnreachable):
            continue


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), Path(sys.argv[4]), int(sys.argv[5]))
