"""install.sh where the world is not as it should be: it says so, and what was there before still works."""

import http.server
import threading
from collections.abc import Iterator

import pytest

from e2e.support.clean_machine import PREFIX, STATE, CleanMachine, fetch
from e2e.support.engines import PrivateEngine
from e2e.support.installing import Site
from starforge_console.wheels.script import build_script

pytestmark = [pytest.mark.engine, pytest.mark.timeout(600)]

PAGES = {
    "two lines": b"<!DOCTYPE html>\n<html>\n<body>Please sign in</body></html>\n",
    "one line": b"<html><body>Please sign in</body></html>",
    "nothing": b"",
    "comments": b"# \n# \n",
    "another list": b"# starforge-forgelet ..\n# pip-1.whl 00\n",
}


class _Page(http.server.BaseHTTPRequestHandler):
    """Answers every question alike, as the sign-in page of a proxy does."""

    def do_GET(self) -> None:
        content = PAGES[str(self.path.split("/")[1]).replace("-", " ")]
        self.send_response(200)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_words: object) -> None:
        """Say nothing."""


@pytest.fixture
def proxy(host: PrivateEngine) -> Iterator[str]:
    """Something that answers in a console's place."""
    with http.server.ThreadingHTTPServer((host.gateway, 0), _Page) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://{host.gateway}:{server.server_port}"
        finally:
            server.shutdown()
            thread.join(20)


def test_what_a_proxy_answers_in_the_consoles_place_removes_nothing(
    machine: CleanMachine, site: Site, proxy: str
) -> None:
    assert machine.install(site.console, **site.joining()).returncode == 0
    versions = machine.list_versions()
    for page in PAGES:
        script = build_script(f"{proxy}/{page.replace(' ', '-')}", None).encode()
        done = machine.run("sh", typed=script, **machine.settings)
        assert (done.returncode, "is no list of wheels" in done.stderr) == (1, True), (page, done.stderr)
        assert machine.list_versions() == versions, page
    assert machine.run("forgelet", "version").returncode == 0


def test_a_folder_with_other_things_is_neither_filled_nor_emptied(machine: CleanMachine, site: Site) -> None:
    machine.run("sh", "-c", "mkdir -p /srv/venv && touch /srv/venv/pyvenv.cfg")
    for words in ((), ("--uninstall", "--force")):
        done = machine.install(site.console, *words, FORGE_PREFIX="/srv", **site.joining())
        assert (done.returncode, "name a folder for forgelet alone" in done.stderr) == (1, True), done.stderr
    assert machine.run("ls", "-A", "/srv").stdout.split() == ["venv"]
    assert machine.run("ls", "-A", "/srv/venv").stdout.split() == ["pyvenv.cfg"]


def test_a_purge_takes_what_forgelet_wrote_and_leaves_the_rest_of_the_folder(machine: CleanMachine, site: Site) -> None:
    machine.run("sh", "-c", "mkdir -p -m 700 /srv/state && echo mine >/srv/state/thesis")
    machine.settings["FORGE_NODE_STATE_DIR"] = "/srv/state"
    assert machine.install(site.console, **site.joining()).returncode == 0
    assert machine.run("ls", "/srv/state/node.pem").returncode == 0
    done = machine.install(site.console, "--uninstall", "--purge")
    assert (done.returncode, "holds other things" in done.stderr) == (0, True), done.stderr
    assert machine.run("ls", "-A", "/srv/state").stdout.split() == ["thesis"]


def test_a_link_in_the_folders_place_is_followed_and_removed_with_what_lies_behind(
    machine: CleanMachine, site: Site
) -> None:
    machine.run("sh", "-c", f"mkdir -p /srv/roomy {PREFIX.rpartition('/')[0]} && ln -s /srv/roomy {PREFIX}")
    assert machine.install(site.console, **site.joining()).returncode == 0
    assert machine.run("ls", "/srv/roomy/current").returncode == 0
    assert machine.install(site.console, "--uninstall").returncode == 0
    assert machine.run("ls", "-A", "/srv/roomy").stdout == ""
    assert machine.run("ls", f"{STATE}/identity.json").returncode == 0


def test_a_version_whose_python_has_left_the_machine_is_built_anew(machine: CleanMachine, site: Site) -> None:
    assert machine.install(site.console, **site.joining()).returncode == 0
    before = machine.current()
    machine.run("sh", "-c", f"rm {PREFIX}/{before}/bin/python* && ln -s /gone {PREFIX}/{before}/bin/python")
    again = machine.install(site.console)
    assert again.returncode == 0, again.stderr
    assert machine.current() != before
    assert machine.run("forgelet", "version").returncode == 0


def test_wheels_that_fail_leave_nothing_half_made_and_it_says_how_to_go_on(machine: CleanMachine, site: Site) -> None:
    script = fetch(f"{site.console.url}/install.sh")
    read = b'INSTALLER_SHA256; } <"$LOCK"'
    assert read in script
    other = script.replace(read, read + b"; INSTALLER_SHA256=0")
    done = machine.run("sh", typed=other, **machine.settings, **site.joining())
    assert (done.returncode, "the digest is" in done.stderr) == (1, True), done.stderr
    assert "nothing half made is left: once that is mended, run the same line again" in done.stderr
    left = machine.run("ls", "-A", PREFIX).stdout.split()
    assert [name for name in left if not name.startswith(".lock")] == ["console-ca.pem"]
    assert [name for name in left if name.endswith((".part", ".new"))] == []
    assert machine.install(site.console, **site.joining()).returncode == 0


@pytest.mark.parametrize("signal", ["INT", "KILL"])
def test_a_run_that_was_cut_short_anywhere_is_mended_by_the_next(
    machine: CleanMachine, site: Site, signal: str
) -> None:
    machine.run("sh", "-c", "cat >/root/install.sh", typed=fetch(f"{site.console.url}/install.sh"))
    given = {**machine.settings, **site.joining()}
    for pause_s in ("0.1", "0.4", "1.2", "2.5", "4"):
        cut = machine.run("timeout", "-s", signal, pause_s, "sh", "/root/install.sh", typed=b"", **given)
        if cut.returncode == 0:
            break
    done = machine.run("sh", "/root/install.sh", typed=b"", **given)
    assert done.returncode == 0, done.stderr
    assert machine.list_versions() == [machine.current()]
    assert machine.run("forgelet", "version").returncode == 0
