"""The bad moments of an API server, called up by tests: it refuses, loses, holds, closes, forgets and forbids."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from e2e.support.kube.status import Document, Refusal, build_status

READ: Final = "GET"


@dataclass(slots=True)
class Rule:
    """What becomes of requests whose first line (`METHOD path?query`) holds every one of `words`.

    A word behind an exclamation mark must not be in it.
    """

    kind: str
    words: tuple[str, ...]
    times: int | None = 1
    refusal: Refusal | None = None
    reached: threading.Event = field(default_factory=threading.Event)
    release: threading.Event = field(default_factory=threading.Event)


@dataclass(slots=True)
class Faults:
    """The switches. What is refused or forbidden stays so until `clear`."""

    _rules: list[Rule] = field(default_factory=list)
    _forbidden: set[tuple[str, str, str | None]] = field(default_factory=set)
    _watches: set[Callable[[], None]] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def refuse(self, code: int, *words: str, times: int | None = None, retry_after_s: int | None = None) -> None:
        """Answer such requests with a Status of `code`, `times` times or until `clear`."""
        said = {429: "The server has received too many requests and has asked us to try again later"}
        refusal = Refusal(code, said.get(code, "an error on the server has prevented the request from succeeding"))
        if retry_after_s is not None:
            refusal.headers["Retry-After"] = str(retry_after_s)
            refusal.body["details"] = {"retryAfterSeconds": retry_after_s}
        self._add(Rule("refuse", words, times, refusal))

    def lose_reply(self, *words: str) -> threading.Event:
        """The next such request takes effect, and its answer is lost; set when it was."""
        return self._add(Rule("lose", words)).reached

    def hold(self, *words: str) -> tuple[threading.Event, threading.Event]:
        """The next such request waits before it takes effect: (set when it is there, set it to let it pass)."""
        rule = self._add(Rule("hold", words))
        return rule.reached, rule.release

    def expire(self, *words: str) -> None:
        """The next such watch or continued list is told that where it wants to go on is too old."""
        self._add(Rule("expire", words))

    def forbid(self, verb: str, plural: str, namespace: str | None = None) -> None:
        """Who asks may not `verb` these objects in the namespace; without one: neither anywhere nor in the whole."""
        self._forbidden.add((verb, plural, namespace))

    def forbids(self, verb: str, plural: str, namespace: str | None) -> bool:
        """Whether that is forbidden: a right in one namespace is none for all of them."""
        named = {(verb, plural, namespace), (verb, plural, "*")}
        return bool(named & self._forbidden) or (namespace is None and (verb, plural, None) in self._forbidden)

    def clear(self) -> None:
        """Refuse, lose, hold and forbid nothing any more; what is held passes."""
        with self._lock:
            rules, self._rules = self._rules, []
            self._forbidden.clear()
        for rule in rules:
            rule.release.set()

    def close_watches(self) -> None:
        """End every watch, as a server does that is told to restart."""
        with self._lock:
            watches = list(self._watches)
        for close in watches:
            close()

    def add_watch(self, close: Callable[[], None]) -> None:
        """Know a watch, so that it can be closed."""
        with self._lock:
            self._watches.add(close)

    def drop_watch(self, close: Callable[[], None]) -> None:
        """Forget a watch that has ended."""
        with self._lock:
            self._watches.discard(close)

    def take(self, line: str) -> Rule | None:
        """The rule for a request, which is used up by it."""
        with self._lock:
            for rule in self._rules:
                if all((word.removeprefix("!") in line) != word.startswith("!") for word in rule.words):
                    if rule.times is not None:
                        rule.times -= 1
                    if rule.times == 0:
                        self._rules.remove(rule)
                    return rule
        return None

    def _add(self, rule: Rule) -> Rule:
        with self._lock:
            self._rules.append(rule)
        return rule


def build_forbidden(user: str, verb: str, group: str, plural: str, namespace: str | None) -> Document:
    """The Status of what a user may not do."""
    place = f'in the namespace "{namespace}"' if namespace is not None else "at the cluster scope"
    said = f'{plural} is forbidden: User "{user}" cannot {verb} resource "{plural}" in API group "{group}" {place}'
    return build_status(403, said, details={"kind": plural} | ({"group": group} if group else {}))
