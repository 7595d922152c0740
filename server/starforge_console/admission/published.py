"""The published catalog: of the methods that come with this release, those that FORGE_METHODS names."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Final

from starforge.recipes.model import Recipe
from starforge.wording import describe_nearest, join_sentences
from starforge_console.errors import SettingsError

EVERYTHING: Final = "*"


@dataclass(frozen=True, slots=True)
class _Pattern:
    """`version` None publishes every version that the recipe knows."""

    text: str
    name: str
    version: str | None

    def takes(self, name: str) -> bool:
        return fnmatchcase(name, self.name)

    def takes_version(self, version: str | None) -> bool:
        return self.version is None or (version is not None and fnmatchcase(version, self.version))


def build_published(catalog: Mapping[str, Recipe], methods: str) -> Mapping[str, Recipe]:
    """`catalog` less what the patterns of `methods`, separated by spaces, leave out.

    A recipe keeps its digest: which of its versions are published here is no part of it.

    Raises:
        SettingsError: a pattern takes nothing.

    """
    patterns = [_parse(text) for text in methods.split()]
    if not patterns:
        raise SettingsError(
            "FORGE_METHODS publishes no method", next_step=f"write {EVERYTHING} to publish all, or name some"
        )
    for pattern in patterns:
        _require_use(pattern, catalog)
    return _Published(catalog, patterns)


class _Published(Mapping[str, Recipe]):
    """Recipes are read when they are asked for, as in the catalog beneath."""

    def __init__(self, catalog: Mapping[str, Recipe], patterns: list[_Pattern]) -> None:
        self._catalog = catalog
        taking = {name: [one for one in patterns if one.takes(name)] for name in catalog}
        self._patterns = {name: found for name, found in taking.items() if self._has_version(name, found)}

    def __getitem__(self, name: str) -> Recipe:
        if name not in self:
            raise KeyError(name)
        recipe, taking = self._catalog[name], self._patterns[name]
        kept = tuple(one for one in recipe.runtimes if any(pattern.takes_version(one.version) for pattern in taking))
        return recipe if kept == recipe.runtimes else replace(recipe, runtimes=kept)

    def __contains__(self, name: object) -> bool:
        return name in self._patterns

    def __iter__(self) -> Iterator[str]:
        return iter(self._patterns)

    def __len__(self) -> int:
        return len(self._patterns)

    def _has_version(self, name: str, taking: list[_Pattern]) -> bool:
        if not taking or any(one.version is None for one in taking):
            return bool(taking)
        return any(one.takes_version(version) for one in taking for version in self._catalog[name].framework_versions)


def _parse(text: str) -> _Pattern:
    name, at, version = text.partition("@")
    return _Pattern(text, name, version if at else None)


def _require_use(pattern: _Pattern, catalog: Mapping[str, Recipe]) -> None:
    names = [name for name in catalog if pattern.takes(name)]
    if not names:
        raise SettingsError(
            f"FORGE_METHODS names {pattern.text!r}, and this release has no such method",
            next_step=describe_nearest(pattern.name, catalog),
        )
    if pattern.version is None:
        return
    versions = {version for name in names for version in catalog[name].framework_versions}
    if not any(map(pattern.takes_version, versions)):
        known = ", ".join(sorted(versions, reverse=True)) or "none"
        raise SettingsError(
            f"FORGE_METHODS names {pattern.text!r}, and this release has no such version",
            next_step=join_sentences(f"known of {', '.join(names)}: {known}"),
        )
