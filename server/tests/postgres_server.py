"""A real PostgreSQL in a folder of its own: reached over a private socket, as a plain user, without a network."""

import os
import pwd
import re
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Final

import psycopg

OLDEST: Final = 15
_START_S: Final = 60.0


def find_programs() -> Path | None:
    """The folder of the newest server's programs here, if there is one that is new enough."""
    found = {}
    for initdb in [*Path("/usr/lib/postgresql").glob("*/bin/initdb"), Path(shutil.which("initdb") or "/nonexistent")]:
        if initdb.exists() and (initdb.resolve().parent / "postgres").exists():
            told = subprocess.run([initdb, "--version"], capture_output=True, text=True, check=True).stdout
            version = re.search(r"(\d+)", told.partition(")")[2])
            found[int(version[1]) if version else 0] = initdb.resolve().parent
    newest = max(found, default=0)
    return found[newest] if newest >= OLDEST else None


class PostgresServer:
    """Runs from its start to `close`; its user `starforge` may do everything."""

    def __init__(self) -> None:
        programs = find_programs()
        if programs is None:
            raise RuntimeError(f"there is no PostgreSQL {OLDEST} or newer: run 'tools/needs.sh postgres'")
        # Short: a socket's path has at most 107 characters.
        self.folder = Path(tempfile.mkdtemp(prefix="starforge-pg-", dir="/tmp"))
        self.folder.chmod(0o755)
        self._user = _find_user()
        if self._user is not None:
            shutil.chown(self.folder, self._user)
        self._programs = programs
        self._process: subprocess.Popen[bytes] | None = None
        made = (programs / "initdb", "-D", self.folder / "data", "-U", "starforge", "-A", "trust", "-E", "UTF8")
        subprocess.run([*made, "--locale=C", "--no-sync"], user=self._user, cwd="/", check=True, capture_output=True)
        self.start()

    def start(self) -> None:
        """Start it, and wait until it answers."""
        settings = {
            "listen_addresses": "",
            "unix_socket_directories": self.folder,
            "max_connections": 200,
            # A test's data need not outlive the machine.
            "fsync": "off",
            "full_page_writes": "off",
            "shared_buffers": "64MB",
        }
        argv = [str(self._programs / "postgres"), "-D", str(self.folder / "data")]
        argv += [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(argv, user=self._user, cwd="/", stdout=log, stderr=log)
        deadline = time.monotonic() + _START_S
        while True:
            try:
                psycopg.connect(f"postgresql:///postgres?host={self.folder}&user=starforge").close()
            except psycopg.OperationalError as error:
                if time.monotonic() > deadline or self._process.poll() is not None:
                    raise RuntimeError((self.folder / "log").read_text(encoding="utf-8")) from error
                time.sleep(0.05)
            else:
                return

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """End it: SIGINT ends every session, SIGQUIT is a crash."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(60)
            self._process = None

    def close(self) -> None:
        """End it and remove what it kept."""
        self.stop()
        shutil.rmtree(self.folder)


def _find_user() -> str | None:
    """Whom to run it as: the server refuses root."""
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"
