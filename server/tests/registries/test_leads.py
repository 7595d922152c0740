"""Where a registry that a user named may lead the console: within its own domain, into no network behind it."""

import asyncio
import ipaddress
from collections.abc import Callable, Iterator, Sequence

import httpx2
import pytest

from server.tests.registries.asking import DIGEST, LOGIN, ask
from server.tests.registries.stage import Answer, Asked, Stage, play, play_over_tls, refuse
from starforge.trust.resolving import Address
from starforge_console.domain.images import NotAnswered, Resolved
from starforge_console.registries.leads import Leads, Resolve, is_of_its_domain

REGISTRY = "registry.site.example"
FOUND = Answer(headers={"Docker-Content-Digest": DIGEST})
TOKEN = Answer(headers={"Content-Type": "application/json"}, body=b'{"token": "abc.def"}')


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    """Every host over TLS; the registry leads where the test says."""
    with play_over_tls(lambda _: FOUND) as (played, environment):
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        yield played


def redirect_to(url: str) -> Answer:
    return Answer(307, {"Location": url})


def sign_in_at(url: str) -> Answer:
    return refuse(401, "UNAUTHORIZED", "", {"WWW-Authenticate": f'Bearer realm="{url}"'})


def answer_leading(to: Answer) -> Callable[[Asked], Answer]:
    def answer(asked: Asked) -> Answer:
        if asked.host != REGISTRY or asked.authorization == "Bearer abc.def":
            return TOKEN if asked.path == "/token" else FOUND
        return to

    return answer


def knowing(**known: str) -> Resolve:
    """Names with the addresses that are told of them; dots are written as `_`."""

    async def resolve(host: str, port: int) -> Sequence[Address]:
        del port
        if host.replace(".", "_") not in known:
            raise OSError(host)
        return [ipaddress.ip_address(one) for one in known[host.replace(".", "_")].split()]

    return resolve


@pytest.mark.parametrize("leading", [redirect_to, sign_in_at])
def test_a_registry_leads_to_hosts_of_its_own_domain(stage: Stage, leading: Callable[[str], Answer]) -> None:
    path = "there" if leading is redirect_to else "token"
    stage.answer = answer_leading(leading(f"https://other.site.example/{path}"))
    assert ask(f"{REGISTRY}/train:1") == Resolved(DIGEST)
    assert "other.site.example:443" in stage.proxied


@pytest.mark.parametrize("leading", [redirect_to, sign_in_at])
@pytest.mark.parametrize("place", ["foreign.example", "169.254.169.254", "127.0.0.1", "10.0.0.7"])
def test_a_registry_leads_to_no_host_of_others(stage: Stage, leading: Callable[[str], Answer], place: str) -> None:
    stage.answer = answer_leading(leading(f"https://{place}/token"))
    said = ask(f"{REGISTRY}/train:1", {REGISTRY: LOGIN})
    assert isinstance(said, NotAnswered)
    assert f"it leads to {place}, which is not of its domain, and FORGE_IMAGE_LED_TO does not name it" in said.why
    assert set(stage.proxied) == {f"{REGISTRY}:443"}


def test_a_registry_leads_to_a_foreign_host_that_an_administrator_named(stage: Stage) -> None:
    stage.answer = answer_leading(sign_in_at("https://foreign.example/token"))
    assert ask(f"{REGISTRY}/train:1", image_led_to="Foreign.Example") == Resolved(DIGEST)


@pytest.mark.parametrize(
    ("address", "network"), [("10.1.2.3", "private"), ("127.0.0.1", "loopback"), ("169.254.169.254", "link-local")]
)
def test_a_public_registry_leads_by_no_name_of_its_own_into_another_network(
    stage: Stage, address: str, network: str
) -> None:
    stage.answer = answer_leading(redirect_to("https://other.site.example/there"))
    names = knowing(registry_site_example="8.8.8.8", other_site_example=f"8.8.4.4 {address}")
    said = ask(f"{REGISTRY}/train:1", resolve=names)
    assert isinstance(said, NotAnswered)
    assert f"leads to other.site.example in a {network} network" in said.why
    assert "other.site.example:443" not in stage.proxied


def test_a_registry_leads_into_the_network_that_it_lies_in(stage: Stage) -> None:
    stage.answer = answer_leading(redirect_to("https://other.site.example/there"))
    names = knowing(registry_site_example="10.0.0.2", other_site_example="10.1.2.3")
    assert ask(f"{REGISTRY}/train:1", resolve=names) == Resolved(DIGEST)


def test_a_registry_on_loopback_leads_to_loopback_under_any_of_its_names() -> None:
    with play(lambda _: FOUND) as there, play() as here:
        here.answer = lambda _: redirect_to(f"http://localhost:{there.address.rpartition(':')[2]}/x")
        assert ask(f"{here.address}/train:1") == Resolved(DIGEST)


def test_what_is_asked_for_a_network_is_the_name_alone() -> None:
    leads = Leads(httpx2.URL("https://registry.site.example"), frozenset(), knowing())
    assert asyncio.run(leads.find_refused(httpx2.URL("https://REGISTRY.site.example.:8443/x"))) == ""


@pytest.mark.parametrize(
    ("host", "registry"),
    [
        ("auth.docker.io", "registry-1.docker.io"),
        ("gitlab.com", "registry.gitlab.com"),
        ("dockerauth.cn-hangzhou.aliyuncs.com", "registry.cn-hangzhou.aliyuncs.com"),
        ("pkg.ghcr.io", "ghcr.io"),
        ("registry", "registry"),
    ],
)
def test_hosts_of_one_domain_are_told_by_their_names(host: str, registry: str) -> None:
    assert is_of_its_domain(host, registry)


@pytest.mark.parametrize(
    ("host", "registry"),
    [
        ("evil.io", "ghcr.io"),
        ("evilexample.org", "registry.example.org"),
        ("example.org.evil.net", "registry.example.org"),
        ("x.registry", "registry"),
        ("1.0.0.10", "2.0.0.10"),
        ("0.0.10", "2.0.0.10"),
    ],
)
def test_hosts_of_others_are_told_by_their_names(host: str, registry: str) -> None:
    assert not is_of_its_domain(host, registry)
