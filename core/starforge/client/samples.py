"""The calls of the console's API about examples that jobs report, typed by the contract."""

from urllib.parse import quote

from starforge.client.console import Console
from starforge.contract.samples import SampleList, SampleSet


class SamplesConsole(Console):
    """The console as its API shows examples."""

    def sample_steps(self, job: str, name: str | None) -> SampleList:
        """Under which names there are examples, and the steps under one of them."""
        query: dict[str, str | int] = {"limit": 5000} | ({} if name is None else {"name": name})
        return self._get(SampleList, f"/jobs/{quote(job, safe='')}/samples", query)

    def samples(self, job: str, step: int, name: str | None) -> SampleSet:
        """The rows of a step. Raises NotFound."""
        return self._get(
            SampleSet, f"/jobs/{quote(job, safe='')}/samples/{step}", {} if name is None else {"name": name}
        )
