"""Every error StarForge's core raises, arranged by what the caller can do about it.

StarForgeError
├── InputError           mend what was given, then repeat
│   ├── SpecError            mend the fields that are named
│   ├── ProjectError         mend the project, experiment, lock or setting on disk
│   └── PackError            mend or ignore the files that are named
├── Refused              it was understood and the answer is no: change the request, or ask an administrator
│   ├── SignInRequired       sign in, then repeat
│   ├── SignInPending        wait until somebody approves the sign-in, then repeat
│   │   └── SlowDown             the same, with longer pauses
│   ├── SignInDenied         begin the sign-in anew, if it was meant
│   ├── CodeExpired          begin the sign-in anew
│   ├── NotFound             name something that exists
│   ├── ClientTooOld         upgrade sf, then repeat
│   └── Conflict             look at the present state, then decide
│       └── ProgressAtRisk       say that what the job has done so far may be lost, or let it run on
├── Unavailable          nothing is wrong with the request: wait, then repeat
│   ├── Busy                 repeat after `retry_after_s`
│   └── BackendUnreachable   whether the request took effect is not known: ask before repeating
├── LaunchError          the attempt left nothing behind: launch it again, here or elsewhere
│   ├── NoCapacity           try again when something has changed
│   ├── NodeFault            try another machine; this one needs its administrator
│   └── LaunchRefused        as it was asked for it can never start
└── Bug                  report it: StarForge broke its own rules
    └── IllegalTransition
"""

from typing import ClassVar

from starforge.said.sentence import Said, say_list
from starforge.wording import join_sentences


class StarForgeError(Exception):
    """An error that says what happened, why, and what to do next.

    Args:
        what: What happened, with the value it happened to.
        why: The reason, where it is known.
        next_step: What the reader can do about it.

    """

    code: ClassVar[str] = "error"
    exit_code: ClassVar[int] = 1

    def __init__(self, what: str, *, why: str = "", next_step: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.why = why
        self.next_step = next_step

    def __str__(self) -> str:
        return join_sentences(self.what, self.why, self.next_step)

    @property
    def said(self) -> str:
        """The text of `str()` with the codes of its parts, for whoever passes it on to be read in other languages."""
        parts = [part for part in (self.what, self.why, self.next_step) if part]
        if len(parts) == 1:
            return parts[0]
        if not any(isinstance(part, Said) for part in parts):
            return str(self)
        return Said(str(self), "list.sentences", say_list("list.sentences", parts).values)


class InputError(StarForgeError):
    """What was given cannot be used; mend it, then repeat."""

    code = "input_invalid"
    exit_code = 2


class SpecError(InputError):
    """A JobSpec or a message that does not fit the contract."""

    code = "spec_invalid"


class ProjectError(InputError):
    """A project, experiment, lock or setting on disk that cannot be used."""

    code = "project_invalid"


class PackError(InputError):
    """A workspace that cannot be packed as it is; `path` is the file to blame, None where it is no single one."""

    code = "pack_refused"

    def __init__(self, what: str, *, why: str = "", next_step: str = "", path: str | None = None) -> None:
        super().__init__(what, why=why, next_step=next_step)
        self.path = path


class Refused(StarForgeError):
    """The request was understood and the answer is no."""

    code = "refused"


class SignInRequired(Refused):
    """No valid credential came with the request."""

    code = "sign_in_required"


class SignInPending(Refused):
    """Nobody has decided yet whether this sign-in is theirs."""

    code = "authorization_pending"


class SlowDown(SignInPending):
    """The same, and it was asked too soon: five seconds more between two questions from now on."""

    code = "slow_down"


class SignInDenied(Refused):
    """Somebody said that this sign-in is not theirs."""

    code = "access_denied"


class CodeExpired(Refused):
    """The code of a sign-in is unknown, over its time, or was answered before."""

    code = "expired_token"


class NotFound(Refused):
    """What was named does not exist, or is not the caller's to see."""

    code = "not_found"


class ClientTooOld(Refused):
    """The console no longer serves this version of `sf`."""

    code = "client_too_old"


class Conflict(Refused):
    """The present state of the thing does not allow the request."""

    code = "conflict"


class ProgressAtRisk(Conflict):
    """The job has kept nothing that it could go on from; `lose_progress` in the request says that this is accepted."""

    code = "progress_at_risk"


class Unavailable(StarForgeError):
    """Nothing is wrong with the request; the other side cannot answer it now."""

    code = "unavailable"


class Busy(Unavailable):
    """The other side asks for a pause of `retry_after_s` seconds."""

    code = "busy"

    def __init__(self, what: str, *, retry_after_s: float, why: str = "", next_step: str = "") -> None:
        super().__init__(what, why=why, next_step=next_step)
        self.retry_after_s = retry_after_s


class BackendUnreachable(Unavailable):
    """No answer came: whether the request took effect is not known."""

    code = "backend_unreachable"


class LaunchError(StarForgeError):
    """An attempt was not started, and nothing of it is left behind."""

    code = "launch_failed"


class NoCapacity(LaunchError):
    """There is no room at present."""

    code = "no_capacity"


class NodeFault(LaunchError):
    """The machine, not the job, is at fault."""

    code = "node_fault"


class LaunchRefused(LaunchError):
    """The attempt can never start as it was asked for: its config, its image or this kind of machine forbids it."""

    code = "launch_refused"


class Bug(StarForgeError):
    """StarForge broke one of its own rules."""

    code = "bug"


class IllegalTransition(Bug):
    """A state change that the table does not hold; carries the job's history."""

    code = "illegal_transition"
