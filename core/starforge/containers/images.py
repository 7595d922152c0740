"""Images that the engine holds: which one a name means, and whether it is for this machine."""

from collections.abc import Sequence
from dataclasses import dataclass

from starforge.containers.engine import Engine, EngineError
from starforge.containers.facts import HostFacts
from starforge.containers.failures import refuses_request
from starforge.contract.images import ImageReference, parse_image_reference
from starforge.errors import LaunchRefused, SpecError


@dataclass(frozen=True, slots=True)
class Image:
    """An image by its id; `digests` are those at the repositories that it came from; `user` as its author wrote it."""

    id: str
    digests: tuple[str, ...]
    architecture: str
    user: str

    def find_mismatch(self, facts: HostFacts) -> str | None:
        """A sentence when the image is for another kind of processor; it would be pulled well and not start."""
        if not self.architecture or self.architecture == facts.architecture:
            return None
        return f"the image is for {self.architecture} and this machine is {facts.architecture}"


class Images:
    """The engine's images; what an id means never changes and is asked once."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._digests: dict[str, tuple[str, ...]] = {}

    def find(self, name: str) -> Image | None:
        """The image that `name` (tag, digest or id) means now, or None. Raises BackendUnreachable, EngineError."""
        try:
            described = self._engine.inspect_image(name)
        except EngineError as error:
            if error.status == 404:  # noqa: PLR2004 - HTTP
                return None
            raise
        digests = tuple(map(str, described.get("RepoDigests") or ()))
        identity = str(described["Id"])
        self._digests[identity] = digests
        user = str((described.get("Config") or {}).get("User") or "")
        return Image(identity, digests, str(described.get("Architecture") or ""), user)

    def find_wanted(self, name: str) -> Image | None:
        """As `find`, for a name that a launch asks for. Raises LaunchRefused where an engine does not take it."""
        try:
            parse_image_reference(name)  # an engine answers some malformed names in ways that look like silence
            return self.find(name)
        except SpecError as error:
            raise LaunchRefused(error.what, why=error.why, next_step=error.next_step) from error
        except EngineError as error:
            if not refuses_request(error):
                raise
            raise LaunchRefused(
                f"the engine takes no image called {name!r}",
                why=error.message,
                next_step="correct framework.image in the experiment's config.yaml",
            ) from error

    def find_digest(self, identity: str, name: str) -> str | None:
        """The digest of the image with this id at the repository of `name`, where it came from there."""
        if identity not in self._digests:
            found = self.find(identity)
            self._digests[identity] = found.digests if found else ()
        return find_repository_digest(self._digests[identity], name)


def find_repository_digest(digests: Sequence[str], name: str) -> str | None:
    """The one of `digests`, each `REPOSITORY@DIGEST`, that is of the repository of `name`: its own where it has one."""
    wanted = _find_reference(name)
    named = [one for one in map(_find_reference, digests) if one is not None and one.digest is not None]
    if wanted is None or not wanted.repository:
        return None
    found = [one.digest for one in named if one.home == wanted.home]
    return wanted.digest if wanted.digest in found else next(iter(found), None)


def _find_reference(text: str) -> ImageReference | None:
    try:
        return parse_image_reference(text)
    except SpecError:
        return None  # an engine may say <none>@<none>
