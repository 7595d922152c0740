"""The hardware registry of this console: the built-in names of GPUs, and those that an administrator added."""

import re
from collections.abc import Sequence
from typing import Final

from starforge.errors import Conflict, InputError, NotFound
from starforge.hardware.series import SeriesRegistry, find_series
from starforge.said.sentence import say
from starforge_console.clock import Clock
from starforge_console.ledger.audit import audited
from starforge_console.ledger.database import Database
from starforge_console.ledger.gpu_series import AddedSeries, list_added_series, put_series, remove_series

_LABEL: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?")
_LONGEST_NAME: Final = 200


class HardwareRegistry:
    """Names of GPUs and their series; what is added counts at once, for every fleet."""

    def __init__(self, ledger: Database, clock: Clock) -> None:
        self._ledger = ledger
        self._clock = clock
        self._added: Sequence[AddedSeries] = ()
        self._registry = SeriesRegistry()

    async def load(self) -> None:
        """Read what was added."""
        self._added = await self._ledger.read(list_added_series)
        self._registry = SeriesRegistry({added.name: added.series for added in self._added})

    def find(self, name: str) -> str | None:
        """The series of a GPU that calls itself `name`, or None when nobody has said."""
        return self._registry.find(name)

    def list_added(self) -> Sequence[AddedSeries]:
        """What administrators added, by name."""
        return self._added

    async def add(self, name: str, series: str, by: str) -> AddedSeries:
        """Give a name its series, or another one to a name that was added before.

        Raises:
            InputError: name or series cannot be one.
            Conflict: the name is a built-in one.

        """
        name = " ".join(name.split())
        if not name or len(name) > _LONGEST_NAME or not name.isprintable():
            raise InputError(say("form.no_gpu_name", name=f"{name!r:.80}"), next_step=say("form.no_gpu_name_next"))
        if not _LABEL.fullmatch(series):
            raise InputError(
                say("form.no_series_name", series=f"{series!r:.80}"),
                why=say("form.no_series_name_why"),
                next_step=say("form.other_label"),
            )
        built_in = find_series(name)
        if built_in is not None:
            raise Conflict(say("form.gpu_known", name=repr(name)), why=say("form.gpu_known_why", series=built_in))
        known = self._find_added(name)
        added = AddedSeries(name=known or name, series=series, added_by=by, added_at=self._clock.now())
        told = say("did.series_set", name=added.name, series=series)
        await self._ledger.write(audited(lambda c: put_series(c, added), told))
        await self.load()
        return added

    async def remove(self, name: str) -> None:
        """Forget an added name. Raises NotFound."""
        known = self._find_added(name)
        if known is None:
            raise NotFound(say("form.no_added_gpu", name=f"{name!r:.80}"), next_step=say("form.no_added_gpu_next"))
        told = say("did.series_removed", name=known)
        await self._ledger.write(audited(lambda c: remove_series(c, known), told))
        await self.load()

    def _find_added(self, name: str) -> str | None:
        """The added name that means the same as `name`, whatever its spaces and letter case."""
        for added in self._added:
            if SeriesRegistry({added.name: added.series}).find(name) is not None:
                return added.name
        return None
