"""Secrets of every kind in a console that works: seen by whom they are for, and written down nowhere."""

import json
import os
import secrets
import stat
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from e2e.badinput.calls import Caller as ApiCaller
from e2e.badinput.yard import Yard, make_yard
from e2e.security.canaries import Canaries, ProcessWatch
from e2e.security.commands import ARGUMENTS, HOOK, JOB, PROJECT_FILE, list_commands
from e2e.security.knocking import Street
from e2e.security.routes import list_console_routes
from e2e.security.visitor import Visitor
from e2e.support.console import ConsoleProcess, wait_for
from e2e.support.engines import PrivateEngine
from server.tests.accounts.provider import CLIENT_ID, Provider, serve_provider
from starforge_console.web.pages.visit import SESSION_COOKIE

pytestmark = [pytest.mark.engine, pytest.mark.timeout(300)]  # the first test waits for what all of them look at

CLIENT_SECRET = "the-console/+" + secrets.token_urlsafe(24)
USER, REGISTRY, LOGIN = "a user's secret", "a registry's password", "the administrator's token"
OIDC, ATTEMPT, SESSION = "the secret at the provider", "an attempt's token", "a session"
JOB_UID = 12345
_SF = Path(sys.executable).with_name("sf")
SCRIPT = """
echo "it is $CANARY!"
env > "$FORGE_OUT_DIR/environment"
grep -v CANARY "$FORGE_OUT_DIR/environment" > "$FORGE_OUT_DIR/rest"; rm "$FORGE_OUT_DIR/environment"
echo told
while [ ! -e "$FORGE_OUT_DIR/go" ]; do sleep 0.1; done
"""


@dataclass
class Scene:
    """A console in use, everything secret in it, and what was seen of the processes meanwhile."""

    yard: Yard
    canaries: Canaries
    watch: ProcessWatch
    job: str = ""
    hook: str = ""
    spoken: list[str] = field(default_factory=list)
    """What commands printed that were given or gave a secret, without the one that each shows on purpose."""

    @property
    def console(self) -> ConsoleProcess:
        return self.yard.console

    @property
    def memory(self) -> Path:
        return Path(self.console.environment["FORGE_SECRETS_DIR"])

    def speak(self, *words: str, typed: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run `sf` and keep what it printed to standard error."""
        done = self.console.sf(*words, typed=typed, cwd=self.yard.probe.project)
        self.spoken.append(done.stderr)
        return done


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    with serve_provider(Provider(client_secret=CLIENT_SECRET)) as served:
        yield served


@pytest.fixture(scope="module")
def scene(machine: PrivateEngine, image: str, folder: Path, provider: Provider) -> Iterator[Scene]:
    canaries = Canaries()
    canaries.add(OIDC, CLIENT_SECRET)
    console = ConsoleProcess(folder, machine.socket_path, settings_of(provider))
    try:
        with ProcessWatch(canaries) as watch:
            start(console, canaries)
            made = Scene(make_yard(machine, console, image), canaries, watch)
            live(made)
        yield made
    finally:
        console.close()
        machine.remove_containers()


def settings_of(provider: Provider) -> dict[str, str]:
    return {
        "FORGE_OIDC_ISSUER": provider.issuer,
        "FORGE_OIDC_CLIENT_ID": CLIENT_ID,
        "FORGE_OIDC_NEW_USERS": "member",
        "FORGE_WEBHOOK_ALLOW": "127.0.0.0/8",
        "FORGE_LOG_LEVEL": "debug",
    }


def start(console: ConsoleProcess, canaries: Canaries) -> None:
    """Only the console's own process has the secret at the provider in its environment, as its unit file would say."""
    console.admin("init", "--admin", "ada")
    token = canaries.add(LOGIN, console.token("--scopes", "read,submit,admin"))
    console.environment["FORGE_OIDC_CLIENT_SECRET"] = CLIENT_SECRET
    try:
        console.start()
    finally:
        del console.environment["FORGE_OIDC_CLIENT_SECRET"]
    console.sf("login", "--server", console.url, typed=token)


def live(scene: Scene) -> None:
    """Everything that people do with secrets, once."""
    console, canaries, yard = scene.console, scene.canaries, scene.yard
    value = canaries.add(USER, "hf_" + secrets.token_urlsafe(24))
    (yard.probe.project / "canary").write_text(value)
    scene.speak("secret", "set", "CANARY", "--from-file", "canary")
    (yard.probe.project / "canary").unlink()
    password = canaries.add(REGISTRY, secrets.token_urlsafe(24))
    scene.speak("admin", "registry", "set", "registry.example.org", "--username", "robot", typed=f"{password}\n")
    told = json.loads(scene.speak("webhook", "add", "http://127.0.0.1:1/hook", "--json").stdout)
    canaries.add("a webhook's secret", told["secret"])
    scene.hook = str(told["webhook"]["id"])
    scene.speak("fleet", "create", "farm", "--kind", "node")
    canaries.add("a join token", json.loads(scene.speak("fleet", "token", "create", "farm", "--json").stdout)["token"])
    sign_in_everybody(scene)
    scene.job = yard.begin(SCRIPT, "--secret", "CANARY")
    canaries.add(ATTEMPT, yard.ingest_token(scene.job))
    wait_for(lambda: "told" in yard.probe.log(scene.job).splitlines(), "the job to tell")
    rounds = scene.watch.rounds
    wait_for(lambda: scene.watch.rounds > rounds + 2, "every process to be looked at while the job runs")
    assert console.read_log()


def sign_in_everybody(scene: Scene) -> None:
    """By token, by link, by provider and by code."""
    console, canaries = scene.console, scene.canaries
    ada = Visitor(console.url)
    ada.sign_in(canaries.values[LOGIN])
    canaries.add(SESSION, ada.session)
    console.sf("admin", "user", "add", "bob")
    link = console.admin("user", "link", "bob").stdout.split("/signin/")[1].split()[0]
    canaries.add("a sign-in code", link)
    bob = Visitor(console.url)
    shown = bob.send(bob.open(f"/signin/{link}"), f"/signin/{link}", {})
    canaries.add("a token of a link", "sfp_" + shown.text.split("sfp_")[1][:43])
    canaries.add("a link's session", bob.session)
    ann = Visitor(console.url)
    assert ann.open("/oidc/start").path == "/overview"
    canaries.add("a session that the provider opened", ann.session)
    api = ApiCaller(console.port, "")
    begun = api.send("POST", "/api/v1/device/code", {}).body
    canaries.add("a device code", begun["device_code"])
    asked = ada.send(ada.open("/device"), "/device", {"code": begun["user_code"]})
    form = {"code": begun["user_code"], "do": "approve", "days": "7", "scope": "read"}
    ada.send(asked, "/device/decide", form)
    token = api.send("POST", "/api/v1/device/token", {"device_code": begun["device_code"]}).body["access_token"]
    canaries.add("a token of a device code", token)


def test_no_process_was_called_with_a_secret_and_only_those_hold_one_whom_it_is_for(scene: Scene) -> None:
    assert any("starforge-console serve" in call for call in scene.watch.calls)
    assert any("train.sh" in call for call in scene.watch.calls)
    assert [one for one in scene.watch.seen if one.where == "argv"] == []
    for one in scene.watch.seen:
        is_training = (one.secret, one.uid) == (USER, JOB_UID) and "runner" not in one.call
        is_console = one.secret == OIDC and "starforge-console serve" in one.call and one.uid == os.geteuid()
        assert is_training or is_console, one
    assert {one.secret for one in scene.watch.seen} == {USER, OIDC}


def test_what_others_may_read_of_the_consoles_process_holds_none(scene: Scene) -> None:
    assert scene.console.process is not None
    environ = Path(f"/proc/{scene.console.process.pid}/environ")
    assert stat.S_IMODE(environ.stat().st_mode) == 0o400


def test_the_engine_knows_none(scene: Scene) -> None:
    engine = scene.yard.machine.engine
    listed = engine.list_containers()
    assert any(scene.job in json.dumps(one) for one in listed)
    whole = json.dumps([listed, *(engine.inspect(one["Id"]) for one in listed)])
    assert scene.canaries.find(whole) == []


def test_files_hold_none_but_in_memory_for_the_job_and_at_the_users_own(scene: Scene) -> None:
    """Ledger, curves, logs, spool, outputs and the console's own log are all below these folders."""
    found = scene.canaries.find_in_files(scene.console.folder, scene.memory)
    users = {file: names for file, names in found.items() if Path(file).is_relative_to(scene.console.folder / "sf")}
    memory = {file: names for file, names in found.items() if Path(file).is_relative_to(scene.memory)}
    assert sorted(found.keys() - users.keys() - memory.keys()) == []
    assert list(users.values()) == [[LOGIN]]
    assert sorted(names for held in memory.values() for names in held) == sorted([USER, ATTEMPT])
    for file in found:
        assert stat.S_IMODE(Path(file).stat().st_mode) & 0o077 == 0 or file in memory, file
    assert all(is_closed(Path(file)) for file in memory)


def is_closed(file: Path) -> bool:
    """Whether other users of the machine are kept away from it."""
    chain = [file, *file.parents]
    return any(stat.S_IMODE(one.stat().st_mode) & 0o007 == 0 for one in chain)


def test_no_page_and_no_answer_shows_one(scene: Scene) -> None:
    street, found = Street(scene.console.port), {}
    shows = {"Authorization": f"Bearer {scene.canaries.values[LOGIN]}"}
    cookie = {"Cookie": f"{SESSION_COOKIE}={scene.canaries.values[SESSION]}"}
    paths = [fill(scene, spot.path) for spot in list_console_routes() if spot.method == "GET"]
    views = ("run", "outputs", "samples", "config", "admission", "lineage", "history")
    paths += [f"/jobs/{scene.job}?view={view}" for view in views]
    paths += [f"/admin?view={view}" for view in ("people", "registries", "hardware", "retention", "audit")]
    statuses = []
    for path in paths:
        told = street.knock("GET", path, shows | cookie)
        statuses.append(told.status)
        own = told.headers.get("set-cookie", "").replace(scene.canaries.values[SESSION], "")  # it lives on
        others = {name: text for name, text in told.headers.items() if name != "set-cookie"}
        found[path] = scene.canaries.find(told.body) + scene.canaries.find(own + repr(others))
    assert {path: names for path, names in found.items() if names} == {}
    assert statuses.count(200) > len(paths) * 2 // 3, "most of them showed something"


def fill(scene: Scene, path: str) -> str:
    values = {
        "job_id": scene.job,
        "webhook_id": scene.hook,
        "fleet": "local",
        "name": "bob",
        "framework": "custom",
        "method": "custom",
        "node": "node",
        "act": "drain",
        "step": "1",
        "key:path": "loss",
        "name:path": "none",
    }
    for name, value in values.items():
        path = path.replace(f"{{{name}}}", value)
    return path.replace("{", "").replace("}", "")


def test_every_command_of_sf_has_arguments_here() -> None:
    assert set(ARGUMENTS) == set(list_commands())


@pytest.mark.parametrize("first", sorted({words[0] for words in ARGUMENTS}))
def test_no_command_prints_one(scene: Scene, first: str, tmp_path: Path) -> None:
    called = {words: arguments for words, arguments in ARGUMENTS.items() if words[0] == first}
    found = {words: scene.canaries.find(run(scene, words, arguments, tmp_path)) for words, arguments in called.items()}
    assert {words: names for words, names in found.items() if names} == {}


def run(scene: Scene, words: tuple[str, ...], arguments: tuple[str, ...], folder: Path) -> str:
    """What the command prints, on either stream; who signs in or out does so with a folder of their own."""
    (folder / "canary").write_text(scene.canaries.values[USER])
    own = {JOB: scene.job, HOOK: scene.hook, PROJECT_FILE: str(scene.console.folder / "console.log")}
    own |= {"{url}": scene.console.url, "{folder}": str(folder / "made"), "{file}": str(folder / "canary")}
    typed = {("login",): scene.canaries.values[LOGIN], ("admin", "registry", "set"): scene.canaries.values[REGISTRY]}
    places = {"SF_CONFIG_DIR": str(folder)} if words[0] in {"login", "logout"} else {}
    done = subprocess.run(
        [str(_SF), *words, *(own.get(one, one) for one in arguments)],
        cwd=scene.yard.probe.project,
        env={**scene.console.environment, **places},
        input=typed.get(words, ""),
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr


def test_no_command_of_those_that_made_the_secrets_printed_one_aside(scene: Scene) -> None:
    assert scene.canaries.find("".join(scene.spoken)) == []


def test_what_is_printed_for_support_holds_none(scene: Scene) -> None:
    for program, *words in (
        ("starforge-console", "vault", "--help"),
        ("starforge-console", "user", "ls"),
        ("starforge-console", "quota", "ls"),
        ("forgelet", "doctor", "--json"),
    ):
        argv = [str(_SF.with_name(program)), *words]
        done = subprocess.run(argv, env=scene.console.environment, capture_output=True, text=True, check=False)
        assert scene.canaries.find(done.stdout + done.stderr) == [], (program, words)
