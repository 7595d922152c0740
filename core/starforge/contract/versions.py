"""Which version of `sf` a console still serves: one comparison, one sentence, for both ends."""

from starforge.errors import ClientTooOld


def parse_release(version: str) -> tuple[int, ...]:
    """The numbers of a version such as `0.1.0+forge`, without zeros at the end; what is no number is left out."""
    numbers = [int(part) for part in version.split("+", 1)[0].split(".") if part.isdecimal()]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def check_client(client: str, oldest: str) -> None:
    """Raises ClientTooOld when the version `client` of sf is older than `oldest`."""
    if parse_release(client) >= parse_release(oldest):
        return
    raise ClientTooOld(
        f"sf {client} is too old for this console",
        why=f"it serves sf {oldest} and newer",
        next_step=f"install starforge-core {oldest} or newer from where this one came from, then repeat",
    )
