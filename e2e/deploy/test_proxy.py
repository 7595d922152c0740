"""Behind nginx and Caddy, set up as the pages show: live updates, a large upload, addresses in the audit log."""

import http.client
import json
import os
import shutil
import socket
import ssl
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import expect, sync_playwright

from e2e.support.browser import find_obstacle, open_chromium, sign_in
from e2e.support.console import ConsoleProcess, find_free_port, wait_for
from e2e.support.front import write_certificates
from e2e.support.projects import Experiment, make_experiment
from e2e.support.steps import load_steps

pytestmark = [pytest.mark.proxy, pytest.mark.timeout(300)]

CALLER = "127.0.0.2"
CLAIMED = "203.0.113.9"
LARGE_BYTES = 48 << 20


@dataclass(frozen=True)
class Behind:
    """A console behind a proxy that speaks TLS on `port`; `token` is its administrator's."""

    console: ConsoleProcess
    port: int
    ca_file: Path
    token: str

    def hold(self, *, port: int | None = None, caller: str = CALLER) -> None:
        """Do something that is written down, from `caller`, who claims to be somebody else."""
        trusted = ssl.create_default_context(cafile=str(self.ca_file))
        connection = (
            http.client.HTTPSConnection("127.0.0.1", self.port, source_address=(caller, 0), context=trusted)
            if port is None
            else http.client.HTTPConnection("127.0.0.1", port, source_address=(caller, 0))
        )
        headers = {"Authorization": f"Bearer {self.token}", "X-Forwarded-For": CLAIMED}
        headers["Content-Type"] = "application/json"
        try:
            connection.request("PUT", "/api/v1/admin/gc/hold", json.dumps({"hours": 1, "why": "backup"}), headers)
            answer = connection.getresponse()
            assert answer.status == 200, answer.read()
        finally:
            connection.close()

    def peer(self) -> str:
        """Where the newest act in the audit log came from."""
        return str(self.console.get("/api/v1/admin/audit", self.token)["items"][0]["peer"])


def write_nginx(folder: Path, behind: int, port: int, chain: Path) -> list[str]:
    (block,) = load_steps("proxy.md", "nginx")
    for text, own in {
        "listen 443 ssl": f"listen 127.0.0.1:{port} ssl",
        "/etc/ssl/forge/fullchain.pem": str(chain),
        "/etc/ssl/forge/privkey.pem": str(chain),
        "http://127.0.0.1:7080": f"http://127.0.0.1:{behind}",
    }.items():
        assert text in block
        block = block.replace(text, own)
    folders = "".join(
        f"{kind}_temp_path {folder}/{kind};\n" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    file = folder / "nginx.conf"
    file.write_text(
        f"daemon off;\nuser root;\nworker_processes 1;\npid {folder}/pid;\nerror_log stderr;\n"
        f"events {{}}\nhttp {{\naccess_log off;\n{folders}{block}}}\n"
    )
    return ["nginx", "-p", str(folder), "-e", "stderr", "-c", str(file)]


def write_caddy(folder: Path, behind: int, port: int, chain: Path) -> list[str]:
    (block,) = load_steps("proxy.md", "caddy")
    for text, own in {
        "forge.example.org {": f"https://127.0.0.1:{port} {{\n    tls {chain} {chain}",
        "127.0.0.1:7080": f"127.0.0.1:{behind}",
    }.items():
        assert text in block
        block = block.replace(text, own)
    file = folder / "Caddyfile"
    file.write_text(f"{{\n    admin off\n    auto_https disable_redirects\n    skip_install_trust\n}}\n{block}")
    return ["caddy", "run", "--config", str(file), "--adapter", "caddyfile"]


@pytest.fixture(scope="module", params=[write_nginx, write_caddy], ids=["nginx", "caddy"])
def behind(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Behind]:
    folder = tmp_path_factory.mktemp("proxy")
    port = find_free_port()
    settings = {"FORGE_PUBLIC_URL": f"https://127.0.0.1:{port}", "FORGE_TRUSTED_PROXIES": "127.0.0.1"}
    console = ConsoleProcess(folder / "console", "/nonexistent.sock", settings)
    ca_file, chain = folder / "ca.pem", folder / "chain.pem"
    write_certificates("127.0.0.1", ca_file, chain)
    argv = request.param(folder, console.port, port, chain)
    if shutil.which(argv[0]) is None:
        pytest.skip(f"{argv[0]} is not there: tools/needs.sh proxy installs it")
    environment = os.environ | {"XDG_DATA_HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}
    try:
        console.init()
        with (folder / "proxy.log").open("wb") as log:
            argv = ["setpriv", "--pdeathsig", "KILL", *argv]
            proxy = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment)
        try:
            try:
                wait_for(lambda: _listens(proxy, port), "the proxy to listen")
            except TimeoutError as error:
                raise TimeoutError(f"{error}: {proxy.poll()} {(folder / 'proxy.log').read_text()}") from None
            admin = console.token("--scopes", "read,submit,admin")
            console.environment["SSL_CERT_FILE"] = str(ca_file)
            console.sf("login", "--server", f"https://127.0.0.1:{port}", typed=admin)
            yield Behind(console, port, ca_file, admin)
        finally:
            proxy.terminate()
            proxy.wait(20)
    finally:
        console.close()


@pytest.fixture
def experiment(behind: Behind) -> Experiment:
    project = behind.console.projects / "proj"
    if project.exists():
        return Experiment(behind.console, project, "probe", behind.token)
    return make_experiment(behind.console, "registry.example.org/train:1", "exit 0")


def _listens(proxy: subprocess.Popen[bytes], port: int) -> bool:
    if proxy.poll() is not None:
        raise TimeoutError("the proxy ended")
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_a_page_shows_that_a_job_was_stopped_without_a_reload(behind: Behind, experiment: Experiment) -> None:
    obstacle = find_obstacle()
    if obstacle is not None:
        pytest.skip(obstacle)
    with sync_playwright() as playwright:
        browser = open_chromium(playwright)
        context = browser.new_context(
            base_url=f"https://127.0.0.1:{behind.port}", ignore_https_errors=True, locale="en-GB"
        )
        page = context.new_page()
        sign_in(page, behind.token)
        job = experiment.submit()
        page.goto(f"/jobs/{job}")
        expect(page.locator("#job-state")).to_contain_text("Queued")
        behind.console.sf("job", "stop", job)
        expect(page.locator("#job-state")).to_contain_text("Stopped", timeout=20_000)
        expect(page.locator("#live-state")).to_be_hidden()
        context.close()
        browser.close()


def test_a_large_workspace_arrives_whole(behind: Behind, experiment: Experiment) -> None:
    (experiment.folder / "weights.bin").write_bytes(os.urandom(LARGE_BYTES))
    experiment.commit()
    job = experiment.submit()
    blobs = [path.stat().st_size for path in behind.console.storage.rglob("*") if path.is_file()]
    assert max(blobs) > LARGE_BYTES
    assert experiment.state(job) == "QUEUED"


def test_an_act_is_written_down_with_the_callers_own_address(behind: Behind) -> None:
    behind.hold()
    assert behind.peer() == CALLER


def test_who_is_no_trusted_proxy_is_not_believed(behind: Behind) -> None:
    behind.hold(port=behind.console.port, caller="127.0.0.3")
    assert behind.peer() == "127.0.0.3"
