"""Settings about the registries of images."""

from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from starforge.errors import InputError
from starforge_console.domain.images import parse_registry
from starforge_console.settings.group import Group


def _registries(text: str) -> str:
    for registry in text.split():
        try:
            parse_registry(registry)
        except InputError as error:
            message = f"{error.what}: {error.next_step}"
            raise ValueError(message) from None
    return text


class RegistrySettings(Group):
    """The registries of images: asked at admission which content a tag means."""

    image_resolve: Literal["refuse", "warn", "off"] = Field(
        default="warn",
        description="A submission whose image's registry does not answer: refused, or admitted with a warning; off "
        "asks no registry at all.",
    )
    image_ask_docker_hub: bool = Field(
        default=False,
        description="Names without a registry, such as python:3.11, are asked for at Docker Hub; a login for docker.io "
        "switches it on too.",
    )
    image_plain_http: Annotated[str, AfterValidator(_registries)] = Field(
        default="",
        description="Registries that speak HTTP without TLS, as HOST:PORT separated by spaces; on loopback they may.",
    )
    image_led_to: Annotated[str, AfterValidator(_registries)] = Field(
        default="",
        description="Hosts that a registry may lead the console to, by redirects and for signing in, beside those of "
        "its own domain and those that FORGE_IMAGE_PLAIN_HTTP names, such as auth.example.org, separated by spaces.",
    )
    image_timeout_s: float = Field(default=3.0, gt=0, le=30, description="Longest wait of a submission for a registry.")

    @property
    def plain_http(self) -> frozenset[str]:
        """The registries that may be spoken to without TLS."""
        return frozenset(map(parse_registry, self.image_plain_http.split()))

    @property
    def led_to(self) -> frozenset[str]:
        """The hosts that registries of other domains may lead to too."""
        named = self.image_led_to.lower().split() + self.image_plain_http.lower().split()
        return frozenset(urlsplit(f"//{one}").hostname or one for one in named)
