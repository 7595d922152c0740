import time

import pytest

from server.tests.web.lives import begin
from server.tests.web.support import ConsoleUnderTest, submit
from starforge.contract.api import MethodList, ProfileList
from starforge.contract.executor import FleetView, GpuState, GpuView, NodeView
from starforge_console.domain.quota import Holder
from starforge_console.ledger.quotas import change_parts, list_members, set_team
from starforge_console.ledger.stored import Store, note_stored


@pytest.mark.parametrize(
    ("agent", "status"),
    [
        ("sf/0.0.9+forge", 426),
        ("sf/0.1", 200),
        ("sf/0.1.0+forge", 200),
        ("sf/10.0", 200),
        ("curl/0.0.1", 200),
        ("sf/new", 200),
    ],
)
def test_an_sf_older_than_the_oldest_that_is_served_is_told_to_upgrade(
    console: ConsoleUnderTest, agent: str, status: int
) -> None:
    answer = console.client(console.add_user("ann")).get("/api/v1/whoami", headers={"User-Agent": agent})
    assert answer.status_code == status
    if status == 426:
        oldest = console.client().get("/api/v1/meta", headers={"User-Agent": agent}).json()["min_client"]
        assert answer.json()["code"] == "client_too_old"
        assert f"install starforge-core {oldest} or newer" in answer.json()["next_step"]


def test_who_answers_needs_no_sign_in(console: ConsoleUnderTest) -> None:
    meta = console.client().get("/api/v1/meta").json()
    assert meta["jobspec"] == ["forge/v2"]


def test_a_token_says_whose_it_is_and_how_long(console: ConsoleUnderTest) -> None:
    answer = console.client(console.add_user("root", "admin")).get("/api/v1/whoami").json()
    assert (answer["user"], answer["role"], answer["scopes"]) == ("root", "admin", ["admin", "read", "submit"])
    assert 89 < (answer["token_expires_at"] - time.time()) / 86400 < 91


def test_everybody_sees_the_own_quota_and_that_of_the_team_with_what_is_held(console: ConsoleUnderTest) -> None:
    ann, bob = console.add_user("ann"), console.add_user("bob")
    console.add_user("eve")
    ids = {member.user: user_id for user_id, member in console.ledger.read_now(list_members).items()}
    console.ledger.write_now(lambda c: set_team(c, ids["ann"], "ml"))
    console.ledger.write_now(lambda c: set_team(c, ids["bob"], "ml"))
    console.ledger.write_now(
        lambda c: change_parts(c, Holder("team", "ml"), {"gpus": 8, "series": frozenset({"h200"})})
    )
    console.ledger.write_now(lambda c: change_parts(c, Holder("user", "eve"), {"jobs": 1}))
    job = submit(console, bob)
    begin(console, job)
    console.ledger.write_now(lambda c: note_stored(c, job, {(Store.LOG, 1): 5}))
    items = console.client(ann).get("/api/v1/quotas").json()["items"]
    none = {"gpus": None, "jobs": None, "series": None, "gpu_hours": None, "other_runs": None}
    none |= {"storage_gib": None, "profiles": None}
    (run,) = items[1]["runs"]
    assert (run["job"], run["user"], run["jobs"], run["unanswered"]) == (job, "bob", 1, False)
    held, used = {"gpus": run["gpus"], "jobs": 1}, run["gpu_seconds"]
    assert items == [
        {"kind": "user", "name": "ann", **none, "held": {"gpus": 0, "jobs": 0}, "gpu_seconds": 0, "stored_bytes": 0}
        | {"runs": []},
        {"kind": "team", "name": "ml", **none, "gpus": 8, "series": ["h200"]}
        | {"held": held, "gpu_seconds": used, "stored_bytes": 5, "runs": [run]},
    ]
    assert console.client().get("/api/v1/quotas").status_code == 401


def test_signing_out_ends_the_token_at_once(console: ConsoleUnderTest) -> None:
    client = console.client(console.add_user("ann"))
    assert client.get("/api/v1/whoami").status_code == 200
    assert client.post("/api/v1/tokens/revoke-self").status_code == 204
    answer = client.get("/api/v1/whoami")
    assert (answer.status_code, answer.json()["code"]) == (401, "token_refused")


def test_published_methods_carry_the_digest_that_locks_name(console: ConsoleUnderTest) -> None:
    answer = MethodList.model_validate(console.client(console.add_user("ann")).get("/api/v1/methods").json())
    published = {method.name: method.digest for method in answer.items}
    assert published == {name: recipe.digest for name, recipe in console.services.catalog.items()}


def test_profiles_are_the_built_in_ones_and_those_of_the_machines(console: ConsoleUnderTest) -> None:
    gpus = tuple(
        GpuView(uuid=str(n), index=n, name="H200", series="h200", memory_bytes=None, state=GpuState.FREE)
        for n in range(4)
    )
    node = NodeView(name="big", gpus=gpus, cpus=64, memory_bytes=1 << 40)
    console.fleets.views["local"] = FleetView(fleet="local", nodes=(node,))
    answer = ProfileList.model_validate(console.client(console.add_user("ann")).get("/api/v1/profiles").json())
    assert [(one.name, one.series, one.gpus_per_node) for one in answer.items] == [
        ("any", None, 64),
        ("cpu", None, 0),
        ("h200", "h200", 4),
    ]


def test_health_needs_no_sign_in(console: ConsoleUnderTest) -> None:
    assert console.client().get("/healthz").json() == {"status": "ok"}


def test_figures_are_for_administrators_elsewhere_and_for_every_process_here(console: ConsoleUnderTest) -> None:
    headers = console.add_user("ann")
    submit(console, headers)
    assert console.client().get("/metrics").status_code == 401
    assert console.client(headers).get("/metrics").status_code == 403
    page = console.client(console.add_user("root", "admin")).get("/metrics")
    assert 'starforge_jobs{state="QUEUED"} 1.0' in page.text
    here = console.local_client().get("/metrics")
    assert here.status_code == 200


@pytest.mark.parametrize("header", ["X-Forwarded-For", "X-Real-IP", "Forwarded", "Via"])
def test_figures_for_somebody_behind_a_proxy_of_this_machine_need_an_administrator(
    console: ConsoleUnderTest, header: str
) -> None:
    assert console.local_client().get("/metrics", headers={header: "127.0.0.1"}).status_code == 401


def test_the_document_describes_problems_and_the_way_to_sign_in(console: ConsoleUnderTest) -> None:
    document = console.client().get("/api/v1/openapi.json").json()
    assert "Problem" in document["components"]["schemas"]
    assert document["security"] == [{"token": []}]
    for path, operations in document["paths"].items():
        for operation in operations.values():
            assert "application/problem+json" in operation["responses"]["422"]["content"], path
