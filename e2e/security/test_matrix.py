"""Every route of a console that serves, with every kind of caller: let in and refused as the table says."""

import json
import secrets
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from e2e.badinput.calls import Caller as ApiCaller
from e2e.badinput.yard import Yard, write_sound
from e2e.security.expected import MACHINES, OPEN, Outcome, find_families, find_unused
from e2e.security.knocking import Knock, Street
from e2e.security.people import OWNER, Caller, People, Stolen
from e2e.security.routes import Spot, list_console_routes
from e2e.support.console import ConsoleProcess
from starforge_console.ledger.database import Database
from starforge_console.ledger.schemas import SCHEMAS
from starforge_console.ledger.tables import tokens

pytestmark = [pytest.mark.engine, pytest.mark.timeout(300)]  # the first test waits for what all of them look at

SPOTS = list_console_routes()
WAIT_FOR_GO = 'while [ ! -e "$FORGE_OUT_DIR/go" ]; do sleep 0.1; done'
VISITS = frozenset({"tokens", "audit", "device_codes"})
"""Tables that tell of visits themselves: when a token was last used, that a sign-in failed or began."""
RUNNING = frozenset({"attempts", "event_marks", "gpu_spans", "shares", "stored", "user_storage"})
"""Tables of what runs, which the console writes by itself."""
WAITING = frozenset({"note", "note_said", "waiting", "version", "lease", "lease_until"})
"""The same of jobs that wait."""
HOOK = "http://127.0.0.1:1/hook"
"""Nobody listens there, and no job of these fails."""
EMPTIES_ALL_MACHINES = "POST /api/v1/admin/maintenance/drain"
PROXIED = {"X-Forwarded-For": "203.0.113.9"}
"""Without it a process of this machine asks, which the figures are for."""


@dataclass(frozen=True, slots=True)
class Town:
    """A console, everybody who comes to it, and jobs that wait for ever."""

    yard: Yard
    street: Street
    people: People
    ledger: Database
    spec: dict[str, Any]

    def submit(self) -> str:
        """A job of the owner's that waits."""
        return str(self._send("jobs", {})["job"])

    def sweep(self) -> str:
        """A sweep of the owner's that waits."""
        return str(self._send("sweeps", {"combinations": [{"lr": 0.1}, {"lr": 0.2}]})["sweep"])

    def webhook(self) -> str:
        """A webhook of the owner's."""
        return str(self._post("webhooks", {"url": HOOK, "events": ["FAILED"]})["webhook"]["id"])

    def _send(self, what: str, more: dict[str, Any]) -> dict[str, Any]:
        return self._post(what, {"spec": self.spec, "allow_dirty": True, **more})

    def _post(self, what: str, body: dict[str, Any]) -> dict[str, Any]:
        caller = ApiCaller(self.yard.console.port, self.people.token(OWNER))
        answer = caller.send("POST", f"/api/v1/{what}", body)
        assert answer.status == 201, answer
        told: dict[str, Any] = answer.body
        return told

    def fill(self, spot: Spot, *, harmless: bool) -> str:
        """An address of the route. `harmless`: what administrators would lose is named as what is not there."""
        made = {"job_id": self.submit, "sweep_id": self.sweep, "webhook_id": self.webhook}
        made["token_id"] = lambda: str(self.people.token_id(OWNER))
        path = spot.path
        for name, make in made.items():
            if f"{{{name}}}" in path:
                path = path.replace(f"{{{name}}}", make())
        places = {
            "framework": "custom",
            "method": "custom",
            "digest": "sha256:" + "0" * 64,
            "fleet": "nowhere" if harmless else "local",
            "node": "nowhere",
            "act": "drain",
            "name": "nobody",
            "user": "nobody" if harmless else "vera",
            "holder": "nobody" if harmless else "vera",
            "kind": "user",
            "window_kind": "fleet",
            "window": "nowhere" if harmless else "local",
            "registry": "registry.example.org",
            "step": "1",
            "key": "loss",
            "name:path": "none",
            "key:path": "loss",
            "project": "starforge",
            "tag": "cp311-x86_64",
            "version": "0",
            "code": secrets.token_urlsafe(16),
        }
        for name, value in places.items():
            path = path.replace(f"{{{name}}}", value)
        assert "{" not in path, f"a new parameter of an address has no value here: {path}"
        return path

    def picture(self) -> dict[str, list[str]]:
        """All that people can change in the ledger, and a token's end with it."""
        tables = [one for one in SCHEMAS["ledger"].sorted_tables if one.name not in VISITS | RUNNING]
        chosen = {one.name: [column for column in one.columns if column.name not in WAITING] for one in tables}
        chosen["tokens"] = [tokens.c.id, tokens.c.revoked_at]
        return self.ledger.read_now(
            lambda c: {name: sorted(map(repr, c.execute(select(*columns)))) for name, columns in chosen.items()}
        )


@pytest.fixture(scope="module")
def ledger(console: ConsoleProcess) -> Iterator[Database]:
    opened = Database(Path(console.environment["FORGE_CONSOLE_STATE_DIR"]) / "ledger.db", "ledger")
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def town(yard: Yard, ledger: Database) -> Town:
    console = yard.console
    job = yard.begin(WAIT_FOR_GO, profile="any:2")  # it holds all GPUs, so that the jobs of others wait
    yard.probe.wait_state(job, "RUNNING")
    console.sf("fleet", "create", "farm", "--kind", "node")
    joining = json.loads(console.sf("fleet", "token", "create", "farm", "--json").stdout)["token"]
    hook = json.loads(console.sf("webhook", "add", HOOK, "--event", "FAILED", "--json").stdout)["secret"]
    begun = yard.api.send("POST", "/api/v1/device/code", {}).body["device_code"]
    stolen = Stolen(yard.ingest_token(job), joining, begun, hook)
    people = People(ledger, time.time(), stolen)
    spec = yard.spec_with(yard.upload(write_sound))
    return Town(yard, Street(console.port), people, ledger, spec)


def test_every_route_is_in_one_family_and_every_line_of_the_table_has_a_route() -> None:
    assert {str(spot): len(find_families(spot)) for spot in SPOTS if len(find_families(spot)) != 1} == {}
    assert find_unused(SPOTS) == []


@pytest.mark.parametrize("spot", SPOTS, ids=str)
def test_a_route_lets_in_whom_the_table_says_and_the_refused_change_nothing(town: Town, spot: Spot) -> None:
    (family,) = find_families(spot)
    callers = everybody(town, spot)
    expected = [(caller, family.expect(caller)) for caller in callers]
    kept_out = [(caller, outcome) for caller, outcome in expected if outcome is not Outcome.LET_IN]
    path = town.fill(spot, harmless=False)
    before = town.picture()
    faults = [fault for caller, outcome in kept_out for fault in visit(town, spot, path, caller, outcome)]
    if spot.method == "POST" and is_page(spot):
        faults += [fault for caller in callers for fault in send_from_elsewhere(town, path, caller)]
    after = town.picture()
    faults += [f"the table {name} is not what it was" for name in before if before[name] != after[name]]
    path = town.fill(spot, harmless=True)
    let_in = [(caller, outcome) for caller, outcome in expected if outcome is Outcome.LET_IN]
    for caller, outcome in let_in:  # each comes anew: another may just have ended what they came with
        again = next(one for one in everybody(town, spot) if one.name == caller.name) if ends_tokens(spot) else caller
        faults += visit(town, spot, path, again, outcome)
    assert not faults, "\n".join(faults)


def everybody(town: Town, spot: Spot) -> list[Caller]:
    return town.people.come_to_the_pages() if is_page(spot) else town.people.come_to_the_api()


def is_page(spot: Spot) -> bool:
    return not spot.path.startswith(("/api/", "/metrics", "/healthz", "/install.sh", "/simple", "/files/", "/locks/"))


def ends_tokens(spot: Spot) -> bool:
    return spot.method != "GET" and ("/tokens" in spot.path or "/sign" in spot.path)


def visit(town: Town, spot: Spot, path: str, caller: Caller, expected: Outcome) -> list[str]:
    """What is wrong with what the caller is told."""
    form = build_form(path, caller) if is_page(spot) and spot.method == "POST" else None
    if find_families(spot) == [OPEN] and form is not None:
        return []  # visitors' forms have keys of their own: see below
    if str(spot) == EMPTIES_ALL_MACHINES and expected is Outcome.LET_IN:
        form = {"no": "body"}  # of the kind that is asked for
    told = town.street.knock(spot.method, path, {**caller.headers, **PROXIED}, form)
    said = f"{caller.name}: {told.status}"
    if find_families(spot) == [MACHINES]:
        return [] if 400 <= told.status < 500 else [f"{said}, and no token of a user's helps here"]
    faults = [] if told.outcome is (Outcome.LET_IN if expected is Outcome.NOTHING_DONE else expected) else [said]
    if not caller.role:
        faults += [f"{said}, and hears who is here"] if OWNER.encode() in told.body else []
        faults += find_wrong_status(spot, told, caller) if expected is Outcome.REFUSED else []
    return faults


def find_wrong_status(spot: Spot, told: Knock, caller: Caller) -> list[str]:
    if is_page(spot):
        fits = told.status == 303 or (told.status == 401 and spot.path.startswith("/live/"))
        return [] if fits else [f"{caller.name}: {told.status} in place of the way to sign in"]
    return [] if told.status == caller.status else [f"{caller.name}: {told.status} in place of {caller.status}"]


def send_from_elsewhere(town: Town, path: str, caller: Caller) -> list[str]:
    """What is wrong with the answers to forms that none of our own pages sent for this reader."""
    form = build_form(path, caller)
    forms: Sequence[tuple[str, dict[str, str], dict[str, str]]] = (
        ("without a key", {name: value for name, value in form.items() if name != "form_key"}, {}),
        ("with another's key", {**form, "form_key": "0" * 64}, {}),
        ("by another site", form, {"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example.org"}),
    )
    faults = []
    for what, fields, headers in forms:
        told = town.street.knock("POST", path, {**caller.headers, **headers}, fields)
        if told.outcome is not Outcome.REFUSED or told.opens_session:
            faults.append(f"{caller.name}, a form {what}: {told.status}")
    return faults


def build_form(path: str, caller: Caller) -> dict[str, str]:
    """What a page of ours would send, as far as it decides who is let in."""
    job = path.split("/")[2] if path.startswith("/jobs/") else ""
    named = {"job": job, "confirmed": "yes", "name": "nobody", "fleet": "nowhere", "do": "end"}
    return {"form_key": caller.form_key, **named}
