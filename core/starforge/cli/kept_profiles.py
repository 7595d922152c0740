"""The profiles that the last sign-in kept on this machine: enough to check an experiment without a network."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from starforge.client.login import find_registry
from starforge.hardware.profiles import BUILT_IN, Profile, name_wanted

FRESH_S: Final = 86_400.0


class KeptProfiles(NamedTuple):
    """The profiles by name, and how long ago they were fetched; None: nobody has signed in yet."""

    profiles: Mapping[str, Profile]
    age_s: float | None

    def answers(self, texts: Sequence[str]) -> bool:
        """Whether they are fresh and know every name in what `--profile` was given as `texts`."""
        wanted = {name_wanted(text) for text in texts}
        return self.age_s is not None and self.age_s < FRESH_S and wanted <= {*self.profiles, *BUILT_IN}


def load_kept_profiles() -> KeptProfiles:
    """What was kept. Raises ProjectError where the file is damaged."""
    registry = find_registry()
    if registry is None:
        return KeptProfiles({}, None)
    return KeptProfiles({str(item["name"]): Profile(**item) for item in registry.profiles}, registry.age_s)
