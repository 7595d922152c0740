"""The gate `windows`: nothing is refused, and what has to wait or can never start is told."""

from server.tests.admission.test_gates import ANN, decide, fleet, node, spec
from starforge_console.domain.opening import KeptWindow, WindowOf, Windows
from starforge_console.domain.window_syntax import parse_window

NOON = 1_783_332_000.0
"""Monday, 6 July 2026, 10:00 UTC: noon in Berlin."""
DAYS = parse_window("Europe/Berlin", ["mon-fri 08:00-20:00"])
NIGHTS = parse_window("Europe/Berlin", ["mon-fri 20:00-08:00"])


def ask(*kept: KeptWindow, **members: object) -> list[str]:
    """The warnings; a refusal fails."""
    fleets = (fleet(node("one"), name="local"), fleet(node("two"), name="other"))
    said = decide(spec(**members), *fleets, windows=Windows(kept, {ANN.user_id: "ml"}), now=NOON)
    assert set(said) <= {"warned"}
    return list(said.get("warned", ()))


def test_open_windows_and_those_of_others_pass() -> None:
    assert ask() == []
    assert ask(KeptWindow(WindowOf("profile", "cpu"), DAYS), KeptWindow(WindowOf("team", "web"), NIGHTS)) == []


def test_a_job_that_has_to_wait_is_told_until_when() -> None:
    (warning,) = ask(KeptWindow(WindowOf("team", "ml"), NIGHTS))
    assert warning == (
        "it waits in the queue for its time windows (team ml): it may start Mon 2026-07-06 20:00 Europe/Berlin"
    )


def test_a_closed_fleet_holds_only_those_who_name_it_while_another_is_there() -> None:
    closed = KeptWindow(WindowOf("fleet", "local"), NIGHTS)
    assert ask(closed) == []
    assert len(ask(closed, placement={"fleet": "local"})) == 1
    assert len(ask(closed, KeptWindow(WindowOf("fleet", "other"), NIGHTS))) == 1


def test_a_job_whose_windows_never_open_together_is_warned() -> None:
    (warning,) = ask(KeptWindow(WindowOf("team", "ml"), NIGHTS), KeptWindow(WindowOf("profile", "cpu"), DAYS))
    assert warning.startswith("it never starts: the windows of team ml, profile cpu are not open together")


def test_a_job_whose_end_takes_longer_than_its_window_is_warned() -> None:
    short = parse_window("Europe/Berlin", ["mon-fri 20:00-20:05"])
    (warning,) = ask(KeptWindow(WindowOf("team", "ml"), short), lifecycle={"grace_s": 300})
    assert "for longer than the 300 s that its end may take" in warning
