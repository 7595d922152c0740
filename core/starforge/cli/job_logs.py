"""`sf job logs`: a job's log, whole, in part, as it grows, or the lines of it that hold a text."""

import codecs
from dataclasses import dataclass
from typing import Any, Final

import click

from starforge.cli.follow import decide_exit_code, follow_job, show_end
from starforge.cli.log_writers import LogWriter, NoLog, RawLog, TextLog
from starforge.cli.output import has_colour, json_option, note, paint, print_json
from starforge.cli.session import open_console
from starforge.client.console import Console
from starforge.client.logs import LogAsk, LogQuestion
from starforge.client.streams import Start
from starforge.contract.logs import LogHit
from starforge.errors import InputError
from starforge.logtext import clean_line
from starforge.logtext.reading import LogText
from starforge.wording import count_of

_ALL: Final = "all"


@click.command()
@click.argument("job")
@click.option("-f", "--follow", is_flag=True, help="Go on until the job ends; end with its outcome.")
@click.option("--attempt", type=click.IntRange(1), help="The attempt; the newest when it is not given.")
@click.option("--rank", type=click.IntRange(0), metavar="N", help="Only what this rank wrote.")
@click.option("--node", default="0", metavar="N|all", help="What this node printed, 0 leads; or each in turn.")
@click.option("--tail", type=click.IntRange(1), metavar="N", help="Begin so many lines before the end.")
@click.option("--since-line", type=click.IntRange(1), metavar="N", help="Begin at this line.")
@click.option("--offset", type=click.IntRange(0), default=0, help="Begin at this byte.")
@click.option("--search", "--grep", "text", metavar="TEXT", help="Only lines that hold this text, in any case.")
@click.option("--raw", is_flag=True, help="Write the bytes as they are: terminal sequences and all.")
@json_option
def logs(job: str, **options: Any) -> int:  # noqa: ANN401 - click's
    r"""Print a job's log.

    With -f it goes on until the job ends, through restarts of the console and into
    later attempts; the exit code is 0 only when the job succeeded, and Ctrl-C
    leaves the job running. It gives up when the console is silent for 15 minutes.

    --search looks through the whole log at the console, and prints each line that
    is found with its number, as --since-line takes it.

    \b
    JSON: {job, attempt: number or null, offset, received_to, ended, text}
    JSON with -f: {job: as `sf job ls` shows it, or null when you left}, printed
          at the end, without the log
    JSON with --search: {job, items: [{line, offset, text, begin, end, level}]};
          the match lies between begin and end of text
    """
    wish = _Wish(**options)
    wish.check()
    with open_console() as console:
        if wish.text is not None:
            return _print_hits(console, job, wish)
        if wish.node == _ALL:
            return _print_all(console, job, wish)
        return _follow(console, job, wish) if wish.follow else _print_log(console, job, wish, wish.rank_of_node)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wish:
    """What was asked for, as click gives it."""

    follow: bool
    attempt: int | None
    rank: int | None
    node: str
    tail: int | None
    since_line: int | None
    offset: int
    text: str | None
    raw: bool
    as_json: bool

    @property
    def rank_of_node(self) -> int:
        """The node that is asked for."""
        return 0 if self.node == _ALL else int(self.node)

    def check(self) -> None:
        """Raises InputError for options that contradict one another."""
        if self.node != _ALL and not (self.node.isascii() and self.node.isdigit()):
            raise InputError(f"--node is {self.node!r}", next_step="give the node's number, 0 for the first, or all")
        if self.node == _ALL and (self.follow or self.as_json or self.text is not None or self.offset):
            raise InputError(
                "--node all prints one log after the other",
                why="following, searching, --offset and --json are for one of them",
                next_step="name the node",
            )
        starts = {"--tail": self.tail, "--since-line": self.since_line, "--offset": self.offset or None}
        given = [name for name, value in starts.items() if value is not None]
        if len(given) > 1:
            raise InputError(f"{' and '.join(given)} each say where to begin", next_step="give one of them")
        if self.raw and self.rank is not None:
            raise InputError("--rank picks lines, and --raw shows bytes", next_step="leave out one of them")
        if self.text is not None and (self.follow or self.raw or given):
            raise InputError(
                "--search looks through the whole log as it is now",
                next_step="leave out -f, --raw, --tail, --since-line and --offset",
            )
        if self.text is not None and not self.text:
            raise InputError("--search is given an empty text", next_step="name what to look for")

    def open_log(self) -> LogWriter:
        """Where the log goes."""
        if self.as_json:
            return NoLog()
        return RawLog() if self.raw else TextLog(self.rank)


def _follow(console: Console, job: str, wish: _Wish) -> int:
    start = Start(
        attempt=wish.attempt,
        offset=wish.offset,
        line=wish.since_line,
        tail=wish.tail,
        only_attempt=wish.attempt is not None,
        node=wish.rank_of_node,
    )
    ended = follow_job(console, job, wish.open_log(), start)
    if wish.as_json:
        print_json({"job": ended.model_dump(mode="json") if ended else None})
    elif ended is not None:
        show_end(console, ended)
    return decide_exit_code(ended)


def _print_all(console: Console, job: str, wish: _Wish) -> int:
    """The logs of all nodes in turn, each under its number."""
    pools = console.job(job).spec.spec.resources.pools
    for node in range(sum(pool.nodes for pool in pools)):
        note(f"── node {node} ──")
        _print_log(console, job, wish, node)
    return 0


def _print_log(console: Console, job: str, wish: _Wish, node: int) -> int:
    ask = LogAsk(offset=wish.offset, line=wish.since_line, tail=wish.tail, attempt=wish.attempt, node=node)
    part = console.log(job, ask)
    begin, at, kept = part.offset, part.offset, _KeptLog(wish.rank)
    log: LogWriter = kept if wish.as_json else wish.open_log()
    while True:
        if part.missing is not None:
            log.leave_out(*part.missing)
        log.write(part.content)
        is_still = part.next_offset == at
        at = part.next_offset
        if is_still or at >= part.received_to:
            break
        part = console.log(job, LogAsk(offset=at, attempt=wish.attempt, node=node))
    log.finish()
    if wish.as_json:
        answer = {"job": job, "attempt": wish.attempt, "offset": begin, "received_to": part.received_to}
        print_json({**answer, "ended": part.ended, "text": kept.text})
    return 0


class _KeptLog(NoLog):
    """Keeps a log for a document: its text as it was written, or what one rank wrote of it."""

    def __init__(self, rank: int | None) -> None:
        self._text = None if rank is None else LogText(colour=False, rank=rank)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.text = ""

    def write(self, content: bytes) -> None:
        """Keep the next bytes."""
        self.text += self._decoder.decode(content) if self._text is None else self._text.feed(content)

    def finish(self) -> None:
        """Keep what was held back."""
        self.text += self._decoder.decode(b"", final=True) if self._text is None else self._text.finish()


def _print_hits(console: Console, job: str, wish: _Wish) -> int:
    question = LogQuestion(text=wish.text or "", rank=wish.rank, attempt=wish.attempt, node=wish.rank_of_node)
    found = console.search_log(job, question)
    if wish.as_json:
        print_json({"job": job, "items": [hit.model_dump(mode="json") for hit in found]})
        return 0
    count = 0
    for hit in found:
        count += 1
        click.echo(_render_hit(hit), color=True)
    verb = "holds" if count == 1 else "hold"
    note(f"{count_of(count, 'line')} of the log {verb} {wish.text!r}" if count else f"no line holds {wish.text!r}")
    return 0


def _render_hit(hit: LogHit) -> str:
    colour = has_colour()
    before, match, after = hit.text[: hit.begin], hit.text[hit.begin : hit.end], hit.text[hit.end :]
    text = clean_line(before) + paint(clean_line(match), "red", colour=colour) + clean_line(after)
    return f"{paint(str(hit.line), 'green', colour=colour)}:{text}"
