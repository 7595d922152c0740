"""The pages of fleets as a browser without scripts reads them; what they change is read back from the ledger."""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from structlog.testing import capture_logs

from server.tests.fleets.machines import Machine, build_gpu, build_view
from server.tests.pages.fleet_support import FleetConsole, build_fleet_console
from server.tests.pages.support import form_key, sign_in
from server.tests.web.support import close_console
from starforge.contract.executor import GpuState
from starforge.contract.ids import AttemptId
from starforge.errors import Refused
from starforge_console.domain.nodes import NodeState
from starforge_console.ledger.fleets import list_requiring

TIMES = "&nbsp;\u00d7&nbsp;"
STRANGER = AttemptId("j2k7abcdef-1-abcdef")
POSTS = [
    "/new-fleet",
    "/fleets/gpu/join-tokens",
    "/fleets/gpu/join-tokens/1/revoke",
    "/fleets/gpu/gpu-series",
    "/gpu-series/remove",
    "/fleets/gpu/nodes/gpu7/drain",
    "/fleets/gpu/nodes/gpu7/undrain",
    "/fleets/gpu/nodes/gpu7/remove",
    "/fleets/gpu/nodes/gpu7/mark-lost",
    "/fleets/gpu/nodes/gpu7/end-unknown",
    "/fleets/gpu/delete",
    "/fleets/gpu/limit",
]


@pytest.fixture
def fleets(tmp_path: Path) -> Iterator[FleetConsole]:
    built = build_fleet_console(tmp_path)
    try:
        yield built
    finally:
        close_console(built.console)


@pytest.fixture
def root(fleets: FleetConsole) -> TestClient:
    return sign_in(fleets.console, fleets.console.add_user("root", "admin"))


def send(client: TestClient, path: str, **fields: str) -> str:
    """Send a form of the fleet's page, and give the page that is answered."""
    data = {"form_key": form_key(client.get("/fleets").text), **fields}
    return client.post(path, data=data).text


def find_token(page: str) -> str:
    found = re.search(r"FORGE_JOIN_TOKEN=(sfj_[A-Za-z0-9_-]+) sh<", page)
    assert found is not None
    return found[1]


def state_of(fleets: FleetConsole, node: str) -> NodeState:
    row = fleets.services.directory.find_row(node)
    assert row is not None
    return row.state


def test_a_fleet_is_made_by_the_form_and_shown_with_how_to_go_on(fleets: FleetConsole, root: TestClient) -> None:
    page = send(root, "/new-fleet", name="lab-a", network="host", user="1000:1000")
    assert "make a join token below" in page
    made = fleets.services.fleets.fleets["lab-a"]
    assert (made.kind, made.network, made.user) == ("node", "host", "1000:1000")


def test_a_fleet_is_made_to_take_only_jobs_with_a_time_limit_and_changed_on_its_page(
    fleets: FleetConsole, root: TestClient
) -> None:
    page = send(root, "/new-fleet", name="lab-a", network="host", require_max_runtime="yes")
    assert "only jobs with a time limit" in page
    assert fleets.console.ledger.read_now(list_requiring) == {"lab-a"}
    with capture_logs() as logs:
        page = send(root, "/fleets/lab-a/limit", require_max_runtime="no")
    assert "with and without a time limit" in page
    assert fleets.console.ledger.read_now(list_requiring) == frozenset()
    told = [one for one in logs if one.get("fleet") == "lab-a"]
    assert [(one["only_with_a_time_limit"], one["by"]) for one in told] == [(False, "root")]
    assert "takes only jobs with a time limit" in send(root, "/fleets/lab-a/limit", require_max_runtime="yes")
    assert fleets.console.ledger.read_now(list_requiring) == {"lab-a"}
    assert "there is no fleet" in send(root, "/fleets/none/limit", require_max_runtime="yes")


def test_the_box_stays_checked_where_a_form_comes_back(root: TestClient) -> None:
    page = send(root, "/new-fleet", name="Lab A", network="host", require_max_runtime="yes")
    assert re.search(r'name="require_max_runtime"[^>]* checked>', page)


@pytest.mark.parametrize(
    ("given", "field"),
    [
        (("Lab A", "bridge", ""), "name"),
        (("", "bridge", ""), "name"),
        (("gpu", "bridge", ""), "name"),
        (("lab-a", "carrier-pigeon", ""), "network"),
        (("lab-a", "bridge", "nobody"), "user"),
    ],
)
def test_a_fault_stands_at_its_field_and_what_was_typed_stays(
    fleets: FleetConsole, root: TestClient, given: tuple[str, str, str], field: str
) -> None:
    name, network, user = given
    before = set(fleets.services.fleets.fleets)
    page = send(root, "/new-fleet", name=name, network=network, user=user)
    assert f'id="{field}-fault"' in page
    assert re.search(rf'id="{field}" name="{field}"[^>]*aria-invalid="true"', page)
    assert page.count('role="alert"') == 1
    assert f'name="name" value="{name}"' in page
    assert set(fleets.services.fleets.fleets) == before


def test_the_map_says_who_holds_what_and_leads_to_the_job(fleets: FleetConsole, root: TestClient) -> None:
    view = build_view(
        build_gpu(0),
        replace(build_gpu(1), state=GpuState.QUARANTINED, why="uncorrected ECC"),
        replace(build_gpu(2), state=GpuState.FOREIGN, why="process 48213"),
        build_gpu(3, attempt=STRANGER),
    )
    fleets.add_machine(Machine(view=view, attempts={STRANGER: "RUNNING"}))
    page = root.get("/fleets/gpu").text
    assert [page.count(f'class="hold {state} n1"') for state in ("free", "quarantined", "foreign", "held")] == [1] * 4
    assert "uncorrected ECC" in page
    assert "unknown to this console" in page
    assert f"H200{TIMES}4" in page


def test_a_member_sees_the_map_and_none_of_the_actions(fleets: FleetConsole) -> None:
    gizmo = build_view(build_gpu(0, "NVIDIA Gizmo 9"))
    fleets.add_machine(Machine(view=gizmo, attempts={STRANGER: "RUNNING"}))
    client = sign_in(fleets.console, fleets.console.add_user("bob"))
    page = client.get("/fleets/gpu").text
    assert 'class="hold free n1"' in page
    assert "NVIDIA Gizmo 9" in page
    for action in ("join-tokens", "/drain", "/mark-lost", "gpu-series", "end-unknown"):
        assert action not in page
    assert "/new-fleet" not in client.get("/fleets").text
    assert client.get("/new-fleet").status_code == 403
    assert client.get("/fleets/gpu/nodes/gpu7/drain").status_code == 403


@pytest.mark.parametrize("path", POSTS)
def test_a_member_changes_nothing(fleets: FleetConsole, path: str) -> None:
    fleets.add_machine(Machine())
    client = sign_in(fleets.console, fleets.console.add_user("bob"))
    key = form_key(client.get("/fleets").text)
    data = {"form_key": key, "name": "x", "series": "x", "confirm": "gpu7", "hours": "1", "uses": "1"}
    assert client.post(path, data=data).status_code == 403
    assert state_of(fleets, "gpu7") is NodeState.ACTIVE


@pytest.mark.parametrize("path", POSTS)
def test_a_form_without_this_sessions_key_changes_nothing(fleets: FleetConsole, root: TestClient, path: str) -> None:
    fleets.add_machine(Machine())
    assert root.post(path, data={"confirm": "gpu7"}).status_code == 403
    assert state_of(fleets, "gpu7") is NodeState.ACTIVE


def test_a_join_token_is_shown_once_with_the_lines_to_paste_and_lets_a_machine_in(
    fleets: FleetConsole, root: TestClient
) -> None:
    page = send(root, "/fleets/gpu/join-tokens", hours="2", uses="3")
    token = find_token(page)
    for words in ("curl -fsSL ", "wget -nv -O- ", "sudo --preserve-env=", "which no other machine reaches"):
        assert words in page
    again = root.get("/fleets/gpu").text
    assert token not in again
    machine = Machine()
    answer = fleets.run(fleets.registration.join(machine.build_join(token), "10.0.0.7"))
    assert answer.node == "gpu7"


@pytest.mark.parametrize(
    ("hours", "uses"),
    [
        *(("0", "1"), ("1", "0"), ("nan", "1"), ("soon", "1"), ("1", "many"), ("", "")),
        *(("1_0", "1"), ("\u0663", "1"), ("1e1", "1"), ("1", "1.5"), ("1", "1_0")),
    ],
)
def test_a_life_or_a_number_that_a_join_token_cannot_have_is_refused_in_words(
    fleets: FleetConsole, root: TestClient, hours: str, uses: str
) -> None:
    page = send(root, "/fleets/gpu/join-tokens", hours=hours, uses=uses)
    assert 'role="alert"' in page
    assert "sfj_" not in page
    assert fleets.run(fleets.services.administration.list_tokens("gpu")) == []


def test_with_a_private_ca_a_line_checks_the_digest_of_the_script_that_is_served(tmp_path: Path) -> None:
    ca = tmp_path / "ca.pem"
    ca.write_text("-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n")
    (tmp_path / "console").mkdir()
    built = build_fleet_console(tmp_path / "console", public_url="http://forge.example.org", public_ca_file=ca)
    try:
        client = sign_in(built.console, built.console.add_user("root", "admin"))
        page = send(client, "/fleets/gpu/join-tokens", hours="2", uses="3")
        digest = hashlib.sha256(client.get("/install.sh").content).hexdigest()
        assert f"echo &#39;{digest}  install.sh&#39; | sha256sum -c -" in page
        assert "which no other machine reaches" not in page
        ca.unlink()
        page = send(client, "/fleets/gpu/join-tokens", hours="2", uses="3")
        assert "FORGE_PUBLIC_CA_FILE" in page
        assert "sha256sum" not in page
    finally:
        close_console(built.console)


def test_a_revoked_token_is_listed_no_more_and_lets_nobody_in(fleets: FleetConsole, root: TestClient) -> None:
    page = send(root, "/fleets/gpu/join-tokens", hours="2", uses="3")
    number = re.search(r"/join-tokens/(\d+)/revoke", page)
    assert number is not None
    revoked = send(root, f"/fleets/gpu/join-tokens/{number[1]}/revoke")
    assert "lets nobody in any more" in revoked
    assert "/revoke" not in revoked
    with pytest.raises(Refused, match="revoked"):
        fleets.run(fleets.registration.join(Machine().build_join(find_token(page)), "10.0.0.7"))


def test_an_unknown_name_is_added_on_the_page_and_counts_at_once(fleets: FleetConsole, root: TestClient) -> None:
    fleets.add_machine(Machine(view=build_view(build_gpu(0, "NVIDIA Gizmo 9"), build_gpu(1, "NVIDIA Gizmo 9"))))
    page = root.get("/fleets/gpu").text
    assert "has 2 GPUs that the registry does not know" in page
    assert '<option value="h100-sxm">' in page
    page = send(root, "/fleets/gpu/gpu-series", name="NVIDIA Gizmo 9", series="gizmo-9")
    assert "that the registry does not know" not in page
    assert f"GIZMO-9{TIMES}2" in page
    page = send(root, "/gpu-series/remove", name="NVIDIA Gizmo 9")
    assert "The name is forgotten" in page
    assert fleets.services.hardware.find("NVIDIA Gizmo 9") is None


def test_a_series_that_cannot_be_one_is_refused_beside_its_name(fleets: FleetConsole, root: TestClient) -> None:
    fleets.add_machine(Machine(view=build_view(build_gpu(0, "NVIDIA Gizmo 9"))))
    page = send(root, "/fleets/gpu/gpu-series", name="NVIDIA Gizmo 9", series="Not A Label")
    assert re.search(r'role="alert" id="series-1-fault"[^>]*>&#39;Not A Label&#39; cannot be a series', page)
    assert fleets.services.hardware.find("NVIDIA Gizmo 9") is None


def test_a_drain_says_why_and_lasts_until_it_is_taken_back(fleets: FleetConsole, root: TestClient) -> None:
    fleets.add_machine(Machine())
    assert "No job lives there" in root.get("/fleets/gpu/nodes/gpu7/drain").text
    page = send(root, "/fleets/gpu/nodes/gpu7/drain", why="new power supply")
    assert state_of(fleets, "gpu7") is NodeState.DRAINING
    assert "new power supply" in page
    assert "/nodes/gpu7/undrain" in page
    assert "takes jobs again" in send(root, "/fleets/gpu/nodes/gpu7/undrain")
    assert state_of(fleets, "gpu7") is NodeState.ACTIVE


def test_mark_lost_says_what_it_does_and_needs_the_name_typed(fleets: FleetConsole, root: TestClient) -> None:
    fleets.add_machine(Machine())
    question = root.get("/fleets/gpu/nodes/gpu7/mark-lost").text
    assert "Only when the machine is off" in question
    assert 'id="confirm"' in question
    refused = send(root, "/fleets/gpu/nodes/gpu7/mark-lost", confirm="gpu8")
    assert 'id="confirm-fault"' in refused
    assert state_of(fleets, "gpu7") is NodeState.ACTIVE
    page = send(root, "/fleets/gpu/nodes/gpu7/mark-lost", confirm="gpu7")
    assert "is marked lost" in page
    assert state_of(fleets, "gpu7") is NodeState.LOST


def test_what_a_lost_machine_cannot_do_is_said_where_it_was_asked(fleets: FleetConsole, root: TestClient) -> None:
    fleets.add_machine(Machine())
    send(root, "/fleets/gpu/nodes/gpu7/mark-lost", confirm="gpu7")
    refused = send(root, "/fleets/gpu/nodes/gpu7/drain")
    assert "node gpu7 is marked lost" in refused
    assert 'role="alert"' in refused


def test_a_removed_machine_is_gone_from_the_page(fleets: FleetConsole, root: TestClient) -> None:
    fleets.add_machine(Machine())
    page = send(root, "/fleets/gpu/nodes/gpu7/remove")
    assert "out of the fleet" in page
    assert 'id="node-gpu7"' not in page


def test_a_machine_of_another_fleet_is_not_acted_on(fleets: FleetConsole, root: TestClient) -> None:
    fleets.add_fleet("other")
    fleets.add_machine(Machine())
    assert root.get("/fleets/other/nodes/gpu7/drain").status_code == 404
    send(root, "/fleets/other/nodes/gpu7/mark-lost", confirm="gpu7")
    assert state_of(fleets, "gpu7") is NodeState.ACTIVE


def test_a_container_that_nobody_tells_of_is_not_ended(fleets: FleetConsole, root: TestClient) -> None:
    fleets.add_machine(Machine(attempts={STRANGER: "EXITED"}))
    page = send(root, "/fleets/gpu/nodes/gpu7/end-unknown", attempt=STRANGER)
    assert "runs no unknown container" in page


def test_a_machine_that_is_ready_and_lacks_a_gpu_says_so(fleets: FleetConsole, root: TestClient) -> None:
    lost = "card 0000:0a:00.0 is lost; reboot the machine to get it back"
    fleets.add_machine(Machine(view=replace(build_view(build_gpu(0)), why_not=lost)))
    page = root.get("/fleets/gpu").text
    assert f'<p class="reason" lang="en">{lost}</p>' in page
    assert 'class="tag' not in page[page.index('id="node-gpu7"') : page.index("</article>")]
    assert 'class="hold free n1"' in page


def test_a_machine_that_is_silent_says_so_with_advice_and_its_gpus_are_blocked(
    fleets: FleetConsole, root: TestClient
) -> None:
    fleets.add_machine(Machine())
    fleets.console.clock.ahead_s += 45
    page = root.get("/fleets/gpu").text
    assert "no heartbeat for 45 s" in page
    assert "Look whether the machine is on" in page
    assert page.count('class="hold blocked n1"') == 2
    assert "/nodes/gpu7/mark-lost" in page


def test_a_machine_that_the_console_cannot_call_says_why(fleets: FleetConsole, root: TestClient) -> None:
    fleets.add_machine(Machine())
    fleets.services.directory.note_reach("gpu7", "connection refused at 10.0.0.7:7070")
    page = root.get("/fleets/gpu").text
    assert "unreachable from console: connection refused at 10.0.0.7:7070" in page
    assert "join again with --advertise" in page


def test_hostile_names_are_shown_as_text(fleets: FleetConsole, root: TestClient) -> None:
    evil = "<img src=x onerror=alert(1)>"
    view = build_view(replace(build_gpu(0, evil), state=GpuState.FOREIGN, why=evil))
    fleets.add_machine(Machine(hostname="evil.example.org", view=view))
    page = root.get("/fleets/gpu").text
    assert "<img" not in page
    assert page.count("&lt;img src=x onerror=alert(1)&gt;") >= 2


def test_an_unknown_fleet_and_an_unknown_act_are_answered_with_a_page(root: TestClient) -> None:
    assert root.get("/fleets/nowhere").status_code == 404
    assert root.get("/fleets/gpu/nodes/gpu7/explode").status_code == 422
    assert root.get("/live/fleets/nowhere").status_code == 404


@pytest.mark.parametrize("path", ["/fleets", "/fleets/gpu", "/new-fleet"])
def test_pages_of_fleets_need_a_session(fleets: FleetConsole, path: str) -> None:
    answer = fleets.console.client().get(path, follow_redirects=False)
    assert answer.status_code == 303
    assert answer.headers["location"].startswith("/signin")


def test_a_fleet_is_deleted_on_a_page_that_says_what_comes_of_it(fleets: FleetConsole, root: TestClient) -> None:
    fleets.add_machine(Machine())
    assert 'href="/fleets/gpu/delete"' in root.get("/fleets/gpu").text
    assert "history of its jobs stays" in root.get("/fleets/gpu/delete").text
    refused = send(root, "/fleets/gpu/delete")
    assert "1 node" in refused
    assert "gpu" in fleets.services.fleets
    fleets.run(fleets.services.administration.remove("gpu7"))
    assert "The fleet is deleted." in send(root, "/fleets/gpu/delete")
    assert "gpu" not in fleets.services.fleets
    assert root.get("/fleets/gpu/delete").status_code == 404
