"""How the API server is asked: pages, watches that only wake, rights, and a trial that leaves nothing."""

import asyncio
import contextlib
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from lightkube.config.kubeconfig import KubeConfig

from core.tests.containers.builders import new_attempt
from e2e.support.kube.cluster import TOKEN, KubeApi, kube_api
from server.tests.executors.kuberay.api_server import JOBS, NAMESPACE, make_job
from server.tests.executors.kuberay.documents import make_settings, own_labels, request_of
from starforge.contract.executor import FleetView, Target
from starforge.contract.launch import LaunchRequest, Mount
from starforge.contract.observation import Gone, NoSignal, Phase, Seen
from starforge.errors import BackendUnreachable, LaunchRefused, NodeFault
from starforge_console.executors.kuberay import executor as executors
from starforge_console.executors.kuberay.api import PAGE
from starforge_console.executors.kuberay.api import KubeApi as Asked
from starforge_console.executors.kuberay.checking import check_kube
from starforge_console.executors.kuberay.executor import KubeRayExecutor
from starforge_console.executors.kuberay.manifest import name_rayjob
from starforge_console.executors.kuberay.replies import Expired, KubeSilent
from starforge_console.executors.kuberay.settings import Claim, KubeSettings, SeriesRules
from starforge_console.executors.kuberay.watching import Watch

PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
CLAIMS = f"/api/v1/namespaces/{NAMESPACE}/persistentvolumeclaims"


@pytest.fixture
def api() -> Iterator[KubeApi]:
    with kube_api() as api:
        yield api


@pytest.fixture
def settings(api: KubeApi, tmp_path: Path) -> KubeSettings:
    config = tmp_path / "kubeconfig"
    config.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: lab\n"
        f"clusters: [{{name: lab, cluster: {{server: '{api.server.url}'}}}}]\n"
        f"users: [{{name: console, user: {{token: '{TOKEN}'}}}}]\n"
        "contexts: [{name: lab, context: {cluster: lab, user: console}}, {name: nobody, context: {cluster: lab}}]\n"
    )
    return make_settings(tmp_path, kubeconfig=config, look_s=0.1)


def ask(settings: KubeSettings, question: Callable[[Asked], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        asked = Asked(settings)
        try:
            return await asyncio.wait_for(question(asked), 30)
        finally:
            await asked.close()

    return asyncio.run(run())


def run_executor(settings: KubeSettings, scenario: Callable[[KubeRayExecutor], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        executor = KubeRayExecutor(settings, lambda _: None)
        try:
            return await asyncio.wait_for(scenario(executor), 30)
        finally:
            await executor.close()

    return asyncio.run(run())


def add_node(api: KubeApi, **labels: str) -> None:
    made = api.client.create("/api/v1/nodes", {"metadata": {"name": "n1", "labels": labels}})
    assert made.code == 201
    status = {
        "allocatable": {"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": "4"},
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    assert api.client.merge("/api/v1/nodes/n1/status", {"status": status}).code == 200


class TestLists:
    """Every object, however many there are."""

    def make_pods(self, api: KubeApi, count: int) -> None:
        for number in range(count):
            body = {"metadata": {"name": f"p{number}"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
            assert api.client.create(PODS, body).code == 201

    def test_a_long_list_comes_in_pages(self, api: KubeApi, settings: KubeSettings) -> None:
        self.make_pods(api, PAGE + 2)
        items, version = ask(settings, lambda asked: asked.list_all(PODS))
        assert len({item["metadata"]["name"] for item in items}) == PAGE + 2
        assert version

    def test_a_list_that_became_too_old_between_its_pages_begins_anew(
        self, api: KubeApi, settings: KubeSettings
    ) -> None:
        self.make_pods(api, PAGE + 2)
        api.server.faults.expire("continue=")
        items, _ = ask(settings, lambda asked: asked.list_all(PODS))
        assert len(items) == PAGE + 2

    @pytest.mark.parametrize(
        "page",
        [
            {},
            {"kind": "Status", "metadata": {}, "message": "sign in"},
            {"kind": "PodList", "metadata": "x", "items": []},
            {"kind": "PodList", "metadata": {}, "items": {"a": "b"}},
        ],
    )
    def test_what_is_no_list_does_not_say_that_nothing_is_there(
        self, settings: KubeSettings, monkeypatch: pytest.MonkeyPatch, page: dict[str, object]
    ) -> None:
        async def answer(*_: object) -> dict[str, object]:
            return page

        monkeypatch.setattr(Asked, "_read", answer)
        with pytest.raises(KubeSilent, match="gives no list"):
            ask(settings, lambda asked: asked.list_all(PODS))


class TestWatches:
    """They tell that something changed, and go on whatever happens to them."""

    def follow(self, api: KubeApi, settings: KubeSettings, *moments: Callable[[], object]) -> None:
        """After each of `moments` a change must be told, by a wake that comes after it."""

        async def scenario(executor: KubeRayExecutor) -> None:
            woken = asyncio.Event()
            await executor.start(woken.set)
            await woken.wait()
            for count, moment in enumerate(moments, 1):
                await asyncio.to_thread(moment)
                attempt = new_attempt()
                job = make_job(name_rayjob(attempt), labels=own_labels(attempt))
                assert api.client.create(JOBS, job).code == 201
                woken.clear()
                while len(self.list_seen(await executor.inventory())) < count:
                    await woken.wait()
                    woken.clear()

        run_executor(settings, scenario)

    def list_seen(self, inventory: object) -> list[object]:
        assert isinstance(inventory, dict)
        return list(inventory)

    def test_a_change_wakes_also_after_the_server_ended_the_watch(self, api: KubeApi, settings: KubeSettings) -> None:
        faults = api.server.faults
        self.follow(api, settings, lambda: None, faults.close_watches, faults.close_watches)

    @pytest.mark.parametrize("code", [429, 500, 403])
    def test_a_watch_that_is_refused_is_asked_for_again(self, api: KubeApi, settings: KubeSettings, code: int) -> None:
        def refuse() -> None:
            api.server.faults.refuse(code, "watch=1", retry_after_s=0)
            api.server.faults.close_watches()

        self.follow(api, settings, refuse, api.server.faults.clear)

    def test_a_version_that_is_too_old_is_told_as_such(self, api: KubeApi, settings: KubeSettings) -> None:
        async def look(asked: Asked) -> None:
            async for _ in asked.watch(JOBS, "1"):
                pass

        api.server.faults.expire("watch=1")
        with pytest.raises(Expired):
            ask(settings, look)


class TestCredentials:
    """Where the cluster is, and who we are."""

    def test_a_server_that_is_away_is_named(self, api: KubeApi, settings: KubeSettings) -> None:
        api.server.go_away()
        with pytest.raises(KubeSilent, match=r"does not answer at http://127\.0\.0\.1") as silent:
            ask(settings, lambda asked: asked.find(JOBS))
        assert "FORGE_KUBE_CONFIG" in silent.value.next_step

    def test_a_console_outside_of_a_pod_is_told_how_else(
        self, settings: KubeSettings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setattr(KubeConfig, "from_service_account", partial(KubeConfig.from_service_account, tmp_path))
        with pytest.raises(KubeSilent, match="cannot be had") as silent:
            ask(replace(settings, kubeconfig=None), lambda asked: asked.find(JOBS))
        assert "FORGE_KUBE_IN_CLUSTER" in silent.value.next_step

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("", "cannot be had"),
            ("[]", "cannot be had"),
            ("apiVersion: v1\nclusters: []\nusers: []\ncontexts: []\n", "context"),
            ("apiVersion: v1\ncurrent-context: x\nclusters: []\nusers: []\ncontexts: []\n", "x"),
            ("a: b: c", "cannot be had"),
        ],
    )
    def test_a_configuration_that_cannot_be_used_says_why(self, settings: KubeSettings, text: str, words: str) -> None:
        assert settings.kubeconfig is not None
        settings.kubeconfig.write_text(text)
        with pytest.raises(KubeSilent, match=words) as silent:
            ask(settings, lambda asked: asked.find(JOBS))
        assert "FORGE_KUBE_CONFIG" in silent.value.next_step

    def write_user(self, settings: KubeSettings, user: str) -> None:
        assert settings.kubeconfig is not None
        line = f"users: [{{name: console, user: {user}}}]"
        whole = settings.kubeconfig.read_text()
        settings.kubeconfig.write_text(re.sub(r"^users: .*$", lambda _: line, whole, flags=re.MULTILINE))

    def test_a_token_that_no_request_can_carry_is_not_told(self, settings: KubeSettings) -> None:
        self.write_user(settings, r'{token: "hidden-token\n"}')
        with pytest.raises(KubeSilent, match="line break") as silent:
            ask(settings, lambda asked: asked.find(JOBS))
        assert "hidden-token" not in str(silent.value)

    @pytest.mark.parametrize("words", ["no JSON", "{}", "[]"])
    def test_a_plugin_that_answers_no_token_is_named(self, settings: KubeSettings, words: str) -> None:
        api_version = "client.authentication.k8s.io/v1beta1"
        self.write_user(settings, f"{{exec: {{apiVersion: {api_version}, command: echo, args: ['{words}']}}}}")
        with pytest.raises(KubeSilent, match="plugin"):
            ask(settings, lambda asked: asked.find(JOBS))

    def test_a_token_that_was_renewed_in_the_file_is_found(self, settings: KubeSettings) -> None:
        self.write_user(settings, "{token: old}")

        async def look(asked: Asked) -> object:
            with pytest.raises(KubeSilent, match="refuses the console"):
                await asked.find(JOBS)
            self.write_user(settings, f"{{token: '{TOKEN}'}}")
            return await asked.find(JOBS)

        assert ask(settings, look) is not None

    def test_without_a_user_the_server_is_asked_as_nobody(self, settings: KubeSettings) -> None:
        with pytest.raises(KubeSilent, match="refuses the console"):
            ask(replace(settings, context="nobody"), lambda asked: asked.find(JOBS))


class TestCheck:
    """What an administrator is told before jobs are sent there."""

    def check(self, settings: KubeSettings) -> Any:
        return asyncio.run(check_kube(settings, {"NVIDIA H200": "h200"}.get))

    def test_a_cluster_that_has_all(self, api: KubeApi, settings: KubeSettings) -> None:
        add_node(api, **{"nvidia.com/gpu.product": "NVIDIA-H200"})
        claim = {"metadata": {"name": "shared"}, "spec": {"accessModes": ["ReadWriteMany"]}}
        assert api.client.create(CLAIMS, claim).code == 201
        report = self.check(settings)
        assert report.version.startswith("v1.")
        assert (report.is_installed, report.missing) == (True, ())
        assert (report.nodes, report.accepting, report.gpus) == (1, 1, {"h200": 4})
        assert list(report.claims) == ["shared"]
        assert report.warnings == ()

    def test_a_cluster_that_lacks_much_says_each(self, api: KubeApi, settings: KubeSettings) -> None:
        add_node(api, **{"nvidia.com/gpu.product": "Something"})
        for verb, plural in (("watch", "rayjobs"), ("patch", "secrets")):
            api.server.faults.forbid(verb, plural, NAMESPACE)
        api.server.faults.forbid("list", "pods")
        report = self.check(replace(settings, series={"h100": SeriesRules(node_selector={"a": "b"})}))
        assert report.missing == ("watch rayjobs.ray.io", "patch secrets")
        said = "\n".join(report.warnings)
        for words in ("no volume claim shared", "other namespaces", "Something", "names h100"):
            assert words in said

    def test_a_cluster_that_is_away(self, api: KubeApi, settings: KubeSettings) -> None:
        api.server.go_away()
        with pytest.raises(BackendUnreachable):
            self.check(settings)


class TestTrial:
    """A manifest that the server looks at and does not keep."""

    def rehearse(self, settings: KubeSettings, root: Path, **changes: Any) -> str | None:
        request = request_of(root, **changes)
        said: str | None = run_executor(settings, lambda executor: executor.rehearse(request))
        assert not (Path(request.workdir) / ".kuberay").exists()
        return said

    def test_what_would_be_taken_leaves_nothing(self, api: KubeApi, settings: KubeSettings, tmp_path: Path) -> None:
        add_node(api)
        assert self.rehearse(settings, tmp_path) is None
        assert api.client.get(JOBS).body["items"] == []

    def test_what_the_server_refuses_is_told_in_its_words(
        self, api: KubeApi, settings: KubeSettings, tmp_path: Path
    ) -> None:
        add_node(api)
        api.server.faults.refuse(422, "PATCH")
        said = self.rehearse(settings, tmp_path)
        assert said is not None
        assert said.startswith("Kubernetes refuses the job: ")

    def test_what_no_claim_holds_is_refused(self, api: KubeApi, settings: KubeSettings, tmp_path: Path) -> None:
        add_node(api)
        said = self.rehearse(replace(settings, claims={"/other": Claim(name="x")}), tmp_path)
        assert said is not None
        assert "lies in no volume claim" in said

    def test_a_server_that_is_away_has_nothing_against_it(
        self, api: KubeApi, settings: KubeSettings, tmp_path: Path
    ) -> None:
        api.server.go_away()
        assert self.rehearse(settings, tmp_path, mounts=(Mount("/x", "/x", read_only=True),)) is None


class TestCapacity:
    """What the executor says of the fleet's nodes."""

    def test_without_the_right_to_all_pods_the_view_is_not_complete(self, api: KubeApi, settings: KubeSettings) -> None:
        add_node(api)
        api.server.faults.forbid("list", "pods")
        view = run_executor(settings, lambda executor: executor.capacity())
        assert isinstance(view, FleetView)
        assert not view.complete
        assert "other namespaces" in view.why_not
        assert len(view.nodes[0].gpus) == 4

    def test_without_the_right_to_nodes_nothing_is_known(self, api: KubeApi, settings: KubeSettings) -> None:
        api.server.faults.forbid("list", "nodes")
        view = run_executor(settings, lambda executor: executor.capacity())
        assert isinstance(view, NoSignal)
        assert "refuses the console" in view.reason


class TestLaunches:
    """What is remembered of a launch, and what is an attempt's at all."""

    def launch(self, executor: KubeRayExecutor, request: LaunchRequest) -> Awaitable[None]:
        return executor.launch(request, Target(fleet="cluster", node="n1", name="x"))

    def test_a_launch_that_cannot_be_remembered_applies_nothing(
        self, api: KubeApi, settings: KubeSettings, tmp_path: Path
    ) -> None:
        add_node(api)
        request = request_of(tmp_path)

        async def scenario(executor: KubeRayExecutor) -> None:
            (settings.state_dir / "launches").rename(tmp_path / "away")
            with pytest.raises(NodeFault, match="cannot be written"):
                await self.launch(executor, request)
            (tmp_path / "away").rename(settings.state_dir / "launches")
            assert isinstance((await executor.observe([request.attempt]))[request.attempt], Gone)

        run_executor(settings, scenario)
        assert api.client.get(JOBS).body["items"] == []

    @pytest.mark.parametrize("answer", [{}, {"kind": "Status", "metadata": {}, "message": "sign in"}])
    def test_what_is_no_rayjob_does_not_say_that_the_name_is_taken(
        self, settings: KubeSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: dict[str, Any]
    ) -> None:
        async def read(*_: object) -> dict[str, Any]:
            return answer

        monkeypatch.setattr(Asked, "_read", read)
        with pytest.raises(KubeSilent, match="is no RayJob"):
            run_executor(settings, lambda executor: self.launch(executor, request_of(tmp_path)))

    def test_one_whose_uid_cannot_be_kept_is_found_by_its_name(
        self, api: KubeApi, settings: KubeSettings, tmp_path: Path
    ) -> None:
        add_node(api)
        request = request_of(tmp_path)
        there, let_pass = api.server.faults.hold("PATCH", "/rayjobs/", "!dryRun")

        async def scenario(executor: KubeRayExecutor) -> None:
            launching = asyncio.ensure_future(self.launch(executor, request))
            assert await asyncio.to_thread(there.wait, 20)
            (settings.state_dir / "launches").rename(tmp_path / "away")
            let_pass.set()
            await launching
            (tmp_path / "away").rename(settings.state_dir / "launches")
            assert isinstance((await executor.observe([request.attempt]))[request.attempt], Seen)
            await self.launch(executor, request)

        run_executor(settings, scenario)
        assert len(api.client.get(JOBS).body["items"]) == 1

    def test_one_that_can_never_have_its_secret_leaves_nothing_also_when_it_is_launched_again(
        self, api: KubeApi, settings: KubeSettings, tmp_path: Path
    ) -> None:
        add_node(api)
        request = request_of(tmp_path)
        api.server.faults.refuse(500, "PATCH", "/secrets/")

        async def scenario(executor: KubeRayExecutor) -> None:
            with pytest.raises(BackendUnreachable):
                await self.launch(executor, request)
            assert len(api.client.get(JOBS).body["items"]) == 1
            api.server.faults.clear()
            api.server.faults.forbid("patch", "secrets", NAMESPACE)
            with pytest.raises(LaunchRefused):
                await self.launch(executor, request)

        run_executor(settings, scenario)
        assert api.client.get(JOBS).body["items"] == []

    def test_a_copy_of_a_manifest_under_another_name_is_no_attempt(
        self, api: KubeApi, settings: KubeSettings, tmp_path: Path
    ) -> None:
        add_node(api)
        request = request_of(tmp_path)

        async def scenario(executor: KubeRayExecutor) -> None:
            await self.launch(executor, request)
            (mine,) = api.client.get(JOBS).body["items"]
            copied = {"name": "mine-now", "labels": mine["metadata"]["labels"]}
            copy = {"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": copied, "spec": mine["spec"]}
            assert api.client.create(JOBS, copy).code == 201
            status = {"status": {"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED"}}
            assert api.client.merge(f"{JOBS}/mine-now/status", status).code == 200
            seen = (await executor.observe([request.attempt]))[request.attempt]
            assert isinstance(seen, Seen)
            assert seen.phase is Phase.PREPARING

        run_executor(settings, scenario)


def lay_folder(own: Path) -> None:
    (own / "stop").unlink()
    (own / "stop").mkdir()


def lay_pipe(own: Path) -> None:
    (own / "stop").unlink()
    os.mkfifo(own / "stop")


def lay_file(own: Path) -> None:
    own.rename(own.with_name("elsewhere"))
    own.write_text("a file")


class TestStops:
    """A job ends, whatever its user lays where the wish to end is written."""

    @pytest.mark.parametrize("is_seen", [True, False], ids=["seen", "console restarted"])
    @pytest.mark.parametrize("lay", [lay_folder, lay_pipe, lay_file])
    def test_one_that_cannot_be_asked_is_killed(  # noqa: PLR0913, PLR0917 - fixtures
        self,
        api: KubeApi,
        settings: KubeSettings,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        lay: Callable[[Path], None],
        is_seen: bool,  # noqa: FBT001 - a parameter of the test
    ) -> None:
        monkeypatch.setattr(executors, "KILL_AFTER_GRACE_S", 0)
        monkeypatch.setattr(executors, "_KILL_SLACK_S", 0)
        add_node(api)
        request = request_of(tmp_path)
        own = Path(request.workdir) / ".kuberay"

        async def scenario(executor: KubeRayExecutor) -> None:
            await executor.launch(request, Target(fleet="cluster", node="n1", name="x"))
            (made,) = api.client.get(JOBS).body["items"]
            status = {"status": {"jobDeploymentStatus": "Running", "jobStatus": "RUNNING"}}
            assert api.client.merge(f"{JOBS}/{made['metadata']['name']}/status", status).code == 200
            (own / "start").write_text("pod head 1\n")
            if is_seen:
                await executor.observe([request.attempt])
            lay(own)
            with contextlib.suppress(BackendUnreachable):
                await executor.stop(request.attempt, 0)
            while api.client.get(JOBS).body["items"]:
                await asyncio.to_thread(os.sched_yield)
            seen = (await executor.observe([request.attempt]))[request.attempt]
            assert isinstance(seen, Seen)
            assert seen.phase is Phase.EXITED

        run_executor(settings, scenario)


class TestStrangers:
    """What others make with our labels in the namespace spoils nothing but itself."""

    def test_a_pod_with_labels_of_ours_keeps_nothing_else_from_being_swept(
        self, api: KubeApi, settings: KubeSettings
    ) -> None:
        labels = own_labels(min(new_attempt(), new_attempt()), part="head", pool="main")
        body = {"metadata": {"name": "p", "labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        assert api.client.create(PODS, body).code == 201
        attempt = new_attempt()
        assert api.client.create(JOBS, make_job(name_rayjob(attempt), labels=own_labels(attempt))).code == 201

        async def scenario(executor: KubeRayExecutor) -> None:
            assert await executor.sweep([]) == [attempt]

        run_executor(settings, scenario)
        assert api.client.get(JOBS).body["items"] == []


class TestHurry:
    """A watch that nobody keeps up is asked for in peace."""

    @pytest.mark.parametrize("is_expired", [True, False])
    def test_one_that_ends_at_once_is_not_asked_for_at_once(
        self,
        settings: KubeSettings,
        monkeypatch: pytest.MonkeyPatch,
        is_expired: bool,  # noqa: FBT001 - a parameter
    ) -> None:
        pauses: list[float] = []
        no_events: list[Any] = []

        class Over(BaseException):
            pass

        async def pause(delay_s: float) -> None:
            pauses.append(delay_s)
            if len(pauses) == 8:
                raise Over

        class Hasty(Asked):
            count = 0

            async def list_all(self, path: str, **params: str) -> tuple[list[Any], str]:
                del path, params
                return [], "1"

            async def watch(self, path: str, version: str, **params: str) -> AsyncIterator[Any]:
                del path, version, params
                self.count += 1
                if self.count == 20:
                    raise Over
                if is_expired:
                    raise Expired
                for event in no_events:
                    yield event

        monkeypatch.setattr(asyncio, "sleep", pause)
        with pytest.raises(Over):
            asyncio.run(Watch(Hasty(settings), JOBS, "", 1.0).keep(lambda: None))
        assert len(pauses) == 8
        assert pauses[0] < 2 < pauses[-1] <= 40
