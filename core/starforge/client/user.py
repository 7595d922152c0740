"""The console for programs of its users: submit, look, follow, wait, fetch. Over the same calls as `sf`.

Every error is one of `starforge.errors`, which says what happened, why and what to do next. A `Client` belongs to one
thread at a time.
"""

import codecs
import logging
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from pydantic import JsonValue

from starforge.client import streams
from starforge.client.console import AnswerT, Console
from starforge.client.files import FilesConsole
from starforge.client.http import Connection
from starforge.client.login import load_session
from starforge.client.logs import LogAsk
from starforge.client.outputs import OUT, complete_path, is_here, list_wanted, refuse_overwriting
from starforge.client.patience import Outage, Patience
from starforge.client.submitting import Asked, check_secret_names, prepare, send, submit_request
from starforge.contract.api import JobDetail, JobView, StopRequest, SubmitRequest
from starforge.contract.files import FileEntry
from starforge.contract.jobspec import JobSpec
from starforge.contract.launch import Secret
from starforge.contract.sweeps import SweepDetail
from starforge.contract.turns import GoOnRequest, PauseRequest
from starforge.errors import Busy, Unavailable
from starforge.hardware.profiles import Profile
from starforge.workspace.config import Setting, build_setting

POINTS: Final = 1000
"""About so many points of a curve are given where nothing else is asked for."""
_POLL_S: Final = 20
_PAUSE_S: Final = 1.0

_log = logging.getLogger("starforge.client")


@dataclass(frozen=True, slots=True)
class Column:
    """One curve: three lists of one length. `total_points` is how many were reported. Times are Unix seconds."""

    steps: list[int]
    values: list[float]
    times: list[float]
    total_points: int


class Client:
    """A console, as one of its users sees it. Use it with `with`, or `close` it.

    Args:
        server: The console's address, such as `https://forge.example.org`.
        token: A personal token; it never shows in a repr or a log.
        give_up_s: How long a console that does not answer is waited for by `logs(follow=True)` and `wait`.

    """

    def __init__(self, server: str, token: str | Secret, *, give_up_s: float = 900.0) -> None:
        text = token.reveal() if isinstance(token, Secret) else token
        self._connection = Connection(server, text)
        self._patience = Patience(give_up_s=give_up_s, is_wanted=lambda: True)
        self.console: Final = FilesConsole(self._connection)
        """Every call of the API, as `sf` makes it."""
        self.jobs: Final = Jobs(self.console)
        """Jobs one by one."""

    @classmethod
    def from_login(cls) -> Self:
        """The console that `sf login` signed in at, or that SF_SERVER and SF_TOKEN name. Raises SignInRequired."""
        session = load_session()
        return cls(session.server, session.token)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Client({self._connection.server!r})"

    def close(self) -> None:
        """Give the connections back."""
        self._connection.close()

    def submit(
        self,
        what: JobSpec | SubmitRequest | str | Path,
        *,
        profiles: Sequence[str] = (),
        settings: Mapping[str, JsonValue] | None = None,
        secrets: Sequence[str] = (),
        allow_dirty: bool = False,
    ) -> JobView:
        """Submit a job; gives it as the console shows it then.

        Args:
            what: The folder of an experiment, or a JobSpec whose workspace the console has.
            profiles: What to run on, for instance `["h200:4"]`; an experiment's.
            settings: Values above those of the experiment's files, such as `{"learning_rate": 1e-4}`.
            secrets: Names of secrets of yours that the job is passed; an experiment's.
            allow_dirty: Send the files as they are, committed or not.

        Raises:
            InputError: what has to be mended.
            Refused: what stands against it, of every gate at once.

        """
        voice = _Voice()
        if isinstance(what, JobSpec):
            what = SubmitRequest(spec=what, allow_dirty=allow_dirty)
        if isinstance(what, SubmitRequest):
            return self.jobs.get(submit_request(self.console, what, voice).job).job
        chosen = _choose_settings(settings)
        folder = Path(what).resolve()
        asked = Asked(tuple(profiles), chosen, check_secret_names(secrets), allow_dirty, allow_dirty)
        prepared = prepare(folder, str(folder), asked, self._find_profiles, voice)
        return self.jobs.get(send(self.console, prepared, voice).job).job

    def sweep(  # noqa: PLR0913 - what `submit` is given, the values and a name
        self,
        folder: str | Path,
        grid: Mapping[str, Sequence[JsonValue]],
        *,
        profiles: Sequence[str],
        name: str | None = None,
        settings: Mapping[str, JsonValue] | None = None,
        secrets: Sequence[str] = (),
        allow_dirty: bool = False,
    ) -> SweepDetail:
        """Submit an experiment once for each combination of the values in `grid`; all are admitted, or none.

        Called again with the same, it gives the sweep of before; under another `name` it makes another one.

        Raises:
            InputError: what has to be mended, of all combinations at once.
            Refused: what stands against it, of every gate at once.

        """
        from starforge.client.sweeps import SweepAsked, SweepConsole, prepare_sweep, send_sweep  # noqa: PLC0415 - rare

        each = Asked(tuple(profiles), _choose_settings(settings), check_secret_names(secrets), allow_dirty, allow_dirty)
        where, voice, console = Path(folder).resolve(), _Voice(), SweepConsole(self._connection)
        prepared = prepare_sweep(where, str(where), SweepAsked(each, grid, name), self._find_profiles, voice)
        return console.sweep(send_sweep(console, prepared, voice).sweep)

    def logs(self, job: str, *, follow: bool = False, attempt: int | None = None) -> Generator[bytes, None, None]:
        """The bytes of a job's log, in pieces.

        With `follow` they go on until the job is over, into later attempts and through restarts of the console, none
        lost and none twice. Bytes that the console does not have are passed over, and logged as a warning. Without an
        `attempt` it is the newest, and with `follow` whatever comes after it.

        Raises:
            NotFound: there is no such job or attempt.
            BackendUnreachable: the console was silent for too long.

        """
        return self._follow(job, attempt) if follow else self._read(job, attempt)

    def log_lines(self, job: str, *, follow: bool = False, attempt: int | None = None) -> Iterator[str]:
        """The same, line by line without their ends; bytes that are no UTF-8 become U+FFFD."""
        decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        rest = ""
        for piece in self.logs(job, follow=follow, attempt=attempt):
            *lines, rest = (rest + decode(piece)).split("\n")
            yield from lines
        rest += decode(b"", final=True)
        if rest:
            yield rest

    def metrics(
        self, job: str, keys: Sequence[str] | None = None, *, points: int = POINTS, attempt: int | None = None
    ) -> dict[str, Column]:
        """Curves by name; without `keys` all of them. Each has about `points` points, lows and highs among them.

        Raises:
            NotFound: the job reported nothing under one of the `keys`.

        """
        wanted = list(self.console.metric_keys(job).keys) if keys is None else keys
        found = {key: self.console.curve(job, key, points, attempt) for key in wanted}
        return {
            key: Column(list(one.steps), list(map(float, one.values)), list(one.times), one.total_points)
            for key, one in found.items()
        }

    def artifacts(self, job: str, folder: str = OUT) -> list[FileEntry]:
        """The entries of a folder of what the job left: its outputs, or `checkpoints/1` of attempt 1, and below."""
        return list(self.console.entries(job, complete_path(folder)))

    def download(self, job: str, path: str = OUT, to: str | Path = ".", *, force: bool = False) -> list[Path]:
        """Bring a file or folder here; gives where its files are.

        Args:
            job: Whose it is.
            path: Below the outputs; or `checkpoint`, the newest, or `checkpoint@step=N`.
            to: The folder to write it into. A download that was cut goes on where it was; what is there is not fetched.
            force: Write over files that are there.

        Raises:
            NotFound: the job has no such thing.
            Conflict: something else lies there already.

        """
        wanted = list_wanted(self.console, job, path, Path(to))
        missing = [one for one in wanted if force or not is_here(one)]
        refuse_overwriting([] if force else missing, "choose another folder, or pass force=True")
        for one in missing:
            self.console.save(job, one, _unwatched)
        return [one.target for one in wanted]

    def wait(self, job: str, *, timeout_s: float | None = None) -> JobView:
        """The job once it has ended and will not be retried by itself; look at its `state`.

        Raises:
            Unavailable: it had not ended after `timeout_s`.
            BackendUnreachable: the console was silent for too long.

        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        watch = _Watch(self.console, job, self._patience.give_up_s)
        while True:
            left_s = float(_POLL_S) if deadline is None else min(_POLL_S, deadline - time.monotonic())
            view = watch.look()
            if view is not None and streams.is_over(view):
                return view
            if left_s <= 0:
                state = view.state if view is not None else "not known, for the console does not answer"
                raise Unavailable(f"job {job} has not ended in {timeout_s} s", why=f"its state is {state}")
            watch.await_change(left_s)

    def _find_profiles(self, _texts: Sequence[str]) -> Mapping[str, Profile]:
        return {one.name: Profile(**one.model_dump()) for one in self.console.profiles().items}

    def _read(self, job: str, attempt: int | None) -> Generator[bytes, None, None]:
        attempt = self.jobs.get(job).job.attempt if attempt is None else attempt
        offset = 0
        while attempt:
            part = self.console.log(job, LogAsk(offset=offset, attempt=attempt))
            if part.missing is not None:
                _tell_gap(job, *part.missing)
            elif not part.content:
                return
            else:
                yield part.content
            offset = part.next_offset

    def _follow(self, job: str, attempt: int | None) -> Generator[bytes, None, None]:
        start = streams.Start(attempt=attempt, only_attempt=attempt is not None)
        items = streams.follow(self.console, job, start, self._patience)
        try:
            for item in items:
                if isinstance(item, streams.LogBytes):
                    yield item.content
                elif isinstance(item, streams.LogGap):
                    _tell_gap(job, item.begin, item.end)
                elif isinstance(item, streams.Note):
                    _log.warning("%s", item.text)
        finally:
            items.close()


class Jobs:
    """What may be done with jobs one by one."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def list(
        self, *, state: str | None = None, user: str | None = None, project: str | None = None, limit: int = 100
    ) -> "list[JobView]":
        """The newest jobs that fit, at most `limit`. The state ACTIVE stands for all that have not ended for good."""
        asked = {"state": state, "user": user, "project": project}
        return self._console.jobs({name: value for name, value in asked.items() if value is not None}, limit)

    def get(self, job: str) -> JobDetail:
        """Everything about a job. Raises NotFound."""
        return self._console.job(job)

    def stop(self, job: str, *, grace_s: float | None = None, note: str | None = None) -> JobView:
        """Ask for the job's end, which is not over yet when this returns; `grace_s` None takes the job's own."""
        self._console.stop(job, StopRequest(grace_s=grace_s, note=note))
        return self.get(job).job

    def pause(
        self, job: str, *, grace_s: float | None = None, note: str | None = None, lose_progress: bool = False
    ) -> JobView:
        """Ask for the job's pause, which is not confirmed yet when this returns.

        Raises ProgressAtRisk for a job that has kept no checkpoint so far, unless `lose_progress`: it would start
        from the beginning.
        """
        return self._console.pause(job, PauseRequest(grace_s=grace_s, note=note, lose_progress=lose_progress))

    def resume(self, job: str, *, note: str | None = None) -> JobView:
        """Let a paused job go on, as the same run; one whose pause is not confirmed yet goes on once it is."""
        return self._console.resume(job, GoOnRequest(note=note))

    def retry(self, job: str, *, note: str | None = None) -> JobView:
        """Queue a failed or stopped job again, as the same run. Raises Conflict for any other."""
        return self._console.retry(job, GoOnRequest(note=note))

    def rerun(self, job: str) -> JobView:
        """Submit the very JobSpec of a job again; gives the new job."""
        import secrets  # noqa: PLC0415 - a parameter of Client.submit is called so

        record = self._console.rerun(job, f"sf-{secrets.token_hex(16)}")
        return self.get(str(record.job)).job

    def delete(self, job: str) -> None:
        """Remove an ended job's record, logs and work. Raises Conflict while it has not ended."""
        self._console.delete(job)


class _Watch:
    """Looks at a job again and again, and gives up when nobody has answered for `give_up_s`."""

    def __init__(self, console: Console, job: str, give_up_s: float) -> None:
        self._console = console
        self._job = job
        self._outage = Outage(Patience(give_up_s=give_up_s), f"wait for {job} again", _log.warning)
        self._last_event = 0

    def look(self) -> JobView | None:
        """The job now; None while the console does not answer."""
        detail = self._try(lambda: self._console.job(self._job))
        return None if detail is None else detail.job

    def await_change(self, wait_s: float) -> None:
        """Wait for an event; at first it comes back at once, with those that have happened so far."""
        found = self._try(lambda: self._console.events(self._job, self._last_event, max(1, int(wait_s))))
        if found is not None:
            self._last_event = max([self._last_event, *(one.number for one in found.items)])

    def _try(self, call: Callable[[], AnswerT]) -> AnswerT | None:
        try:
            answer = call()
        except Unavailable as error:
            self._outage.note_away(error)
            time.sleep(error.retry_after_s if isinstance(error, Busy) else _PAUSE_S)
            return None
        self._outage.note_back(self._outage.count)
        return answer


class _Voice:
    """Hears what happens while an experiment is sent, for whoever listens to this package's logger."""

    def warn(self, text: str) -> None:
        _log.warning("%s", text)

    def note(self, text: str) -> None:
        _log.info("%s", text)

    def watch(self, doing: str, total_bytes: int) -> AbstractContextManager[Callable[..., object]]:
        _log.info("%s %d bytes", doing, total_bytes)
        return nullcontext(lambda *_: None)


def _choose_settings(settings: Mapping[str, JsonValue] | None) -> list[Setting]:
    given = (settings or {}).items()
    return [build_setting(tuple(key.split(".")), value, f"settings[{key!r}]") for key, value in given]


def _tell_gap(job: str, begin: int, end: int) -> None:
    _log.warning("bytes %d to %d of the log of %s are not at the console", begin, end, job)


def _unwatched(_count: int) -> None:
    """Nobody watches a download."""
