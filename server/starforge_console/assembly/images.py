"""Which image an attempt is launched with, and what its machine signs in with to fetch it."""

from dataclasses import dataclass, field
from typing import Protocol

from starforge.contract.launch import RegistryLogin
from starforge.errors import LaunchRefused, NodeFault
from starforge.said.sentence import say
from starforge_console.domain.images import choose_image, find_question
from starforge_console.errors import SealBroken, VaultUnusable
from starforge_console.ledger.image_pins import ImagePins


class KnowsRegistries(Protocol):
    """Who asks registries, and signs in to them (registries.asking)."""

    def is_asked(self, registry: str) -> bool:
        """Whether the registry is asked about images at all."""

    async def find_login(self, image: str) -> RegistryLogin | None:
        """What an engine signs in with to fetch `image`, if anything. Raises SealBroken, VaultUnusable."""


@dataclass(frozen=True, slots=True)
class ImageToLaunch:
    """The reference, and the login for its registry."""

    reference: str
    login: RegistryLogin | None = field(default=None, repr=False)


class AttemptImages:
    """The images of attempts."""

    def __init__(self, registries: KnowsRegistries) -> None:
        self._registries = registries

    async def choose(self, image: str, pins: ImagePins) -> ImageToLaunch:
        """What `image` of a spec means to the job's next attempt, pinned as far as its content is known.

        Raises:
            LaunchRefused: the login for its registry is kept here and will never open.
            NodeFault: the vault cannot be used now; its administrator must look, and the job waits.

        """
        question = find_question(image)
        is_asked = question is not None and self._registries.is_asked(question.registry)
        try:
            login = await self._registries.find_login(image)
        except VaultUnusable as error:
            raise NodeFault(error.what, why=error.why, next_step=error.next_step) from error
        except SealBroken as error:
            registry = question.registry if question is not None else image
            raise LaunchRefused(
                say("launch.no_login", registry=registry),
                why=error.why,
                next_step=say("launch.no_login_next", command=f"sf admin registry set {registry} --username NAME"),
            ) from error
        return ImageToLaunch(choose_image(image, pins.admitted, pins.ran, is_asked=is_asked), login)
