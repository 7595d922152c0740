"""Examples of the messages about the console itself, its catalog, its fleets and what administrators do with it."""

from pydantic import BaseModel, SecretStr

from starforge.contract import api, fleets
from starforge.contract.catalog import MethodDetail, MetricView, ParameterView, RuntimeView
from starforge.contract.kept_secrets import SecretList, SecretView, SetSecret
from starforge.contract.quotas import Held, QuotaList, QuotaView
from starforge.contract.registries import RegistryLoginList, RegistryLoginView, SetRegistryLogin
from starforge.contract.retention import Collection, HoldRequest, HoldView, RemovalView
from starforge.contract.states import JobState
from starforge.contract.webhooks import (
    AddWebhook,
    DeliveryView,
    WebhookAdded,
    WebhookDetail,
    WebhookList,
    WebhookView,
)
from starforge_console.web.examples.jobs import AT, ATTEMPT, DIGEST, JOB, KEY


def build_console() -> list[BaseModel]:
    """The messages about everything but jobs."""
    return [*_console(), *_catalog(), *_fleets(), *_nodes(), *_administration(), *_webhooks()]


def _console() -> list[BaseModel]:
    secret = SecretView(name="HF_TOKEN", set_at=AT)
    quota = QuotaView(kind="user", name="ann", gpus=8, jobs=None, series=None, held=Held(gpus=1, jobs=1))
    return [
        api.Meta(server="0.1.0", jobspec=("forge/v2",), min_client="0.1.0"),
        api.WhoAmI(user="ann", role="member", scopes=("read", "submit"), token_expires_at=AT + 90 * 86_400),
        quota,
        QuotaList(items=(quota,)),
        SetSecret(value=SecretStr("a text that only the job is to see")),
        secret,
        SecretList(items=(secret,)),
    ]


def _catalog() -> list[BaseModel]:
    summary = {"en": "Anything that train.sh starts, in an image of your choice", "zh-Hans": "运行 train.sh"}
    method = api.MethodView(name="custom/custom", version="1", digest=DIGEST, framework_versions=(), summary=summary)
    parameter = ParameterView(name="lr", group="optimizer", type="float", default=0.001, help={"en": "Learning rate"})
    profile = api.ProfileView(name="h100", series="h100", gpus=1, gpus_per_node=8)
    return [
        api.MethodList(items=(method,)),
        MethodDetail(
            method=method,
            framework="custom",
            version=None,
            runtimes=(RuntimeView(version=None, image="python:3.12-slim"),),
            roles=("train",),
            parameters=(parameter,),
            open_parameters=True,
            primary_metric=MetricView(key=KEY, better="lower"),
        ),
        api.ProfileList(items=(profile,)),
    ]


def _fleets() -> list[BaseModel]:
    summary = fleets.FleetSummary(name="lab", kind="node", network="bridge", nodes=1, ready=1, gpus={"held": 1})
    token = fleets.JoinTokenView(id=3, uses_left=10, created_by="root", created_at=AT, expires_at=AT + 86_400)
    line = "curl -fsS https://forge.example.org/install.sh | sh -s -- --token sfj_…"
    return [
        fleets.CreateFleet(name="lab"),
        fleets.ChangeFleet(require_max_runtime=True),
        summary,
        fleets.FleetList(items=(summary,)),
        fleets.FleetDetail(fleet=summary, nodes=(_node(),)),
        fleets.MintJoinToken(hours=24, uses=10),
        fleets.JoinTokenList(items=(token,)),
        fleets.MintedJoinToken(
            id=3,
            token="sfj_…",  # noqa: S106 - the beginning of one, and no token
            line=line,
            lines={"wheelhouse": line},
            expires_at=AT + 86_400,
            uses=10,
        ),
    ]


def _node() -> fleets.NodeDetail:
    holder = fleets.HolderView(attempt=ATTEMPT, phase="running", job=JOB, name="first", user="ann")
    gpu = fleets.GpuDetail(
        uuid="GPU-5f0e0c3a-0001",
        index=0,
        name="NVIDIA H100 80GB HBM3",
        series="h100",
        memory_bytes=85_520_809_984,
        state="held",
        holder=holder,
    )
    return fleets.NodeDetail(
        name="node-1",
        fleet="lab",
        status="ready",
        joined_at=AT,
        heartbeat_at=AT + 20,
        heard_s=3.5,
        cpus=64,
        memory_bytes=549_755_813_888,
        gpus=(gpu,),
        attempts=(holder,),
    )


def _nodes() -> list[BaseModel]:
    series = fleets.GpuSeriesView(name="NVIDIA H100 80GB HBM3", series="h100", added_by="root", added_at=AT)
    return [
        fleets.NodeList(items=(_node(),)),
        fleets.DrainNode(why="a new power supply"),
        fleets.MarkLost(confirm="node-1"),
        fleets.EndUnknown(attempt=ATTEMPT),
        fleets.NodeChanged(node="node-1", fleet="lab", state="draining", fence=1),
        fleets.AddGpuSeries(name=series.name, series=series.series),
        series,
        fleets.GpuSeriesList(items=(series,)),
    ]


def _administration() -> list[BaseModel]:
    login = RegistryLoginView(registry="registry.example.org", username="puller", set_at=AT, set_by="root")
    removal = RemovalView(kind="log", job=JOB, bytes=48_211, why="the job ended 90 days ago")
    return [
        HoldRequest(hours=2, why="a backup"),
        HoldView(id="root-6f1c02ab", until=AT + 7200, by="root", why="a backup"),
        Collection(applied=False, items=(removal,), total_bytes=48_211, more=False),
        SetRegistryLogin(username="puller", password=SecretStr("a password or an access token")),
        login,
        RegistryLoginList(items=(login,)),
    ]


def _webhooks() -> list[BaseModel]:
    new = AddWebhook(url="https://hooks.corp.example/starforge", events=(JobState.FAILED,), project="demo")
    delivery = DeliveryView(id="1-42", job=JOB, state="FAILED", at=AT + 60, tries=1, status=204, outcome="delivered")
    view = WebhookView(
        id=1,
        url=new.url,
        events=("FAILED",),
        project=new.project,
        jobs="own",
        user="ann",
        created_at=AT,
        last=delivery,
    )
    return [
        new,
        delivery,
        view,
        WebhookList(items=(view,)),
        WebhookDetail(webhook=view, deliveries=(delivery,)),
        WebhookAdded(webhook=view, secret="sfw_…"),  # noqa: S106 - the beginning of one, and no secret
    ]
