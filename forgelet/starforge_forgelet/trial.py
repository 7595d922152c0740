"""One throw-away container, as a job's would be: can the job's user write to the share, and is ingest reached?"""

import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from starforge.containers.engine import Engine
from starforge.containers.labels import State
from starforge.errors import StarForgeError
from starforge_forgelet.findings import Finding, failed, passed, unchecked
from starforge_forgelet.network_checks import OWN_NAME, find_endpoint
from starforge_forgelet.state import NodeIdentity

STORAGE: Final = "storage_in_container"
INGEST: Final = "ingest_in_container"
LABEL: Final = "forge.doctor"

_LIMIT_S: Final = 20.0
_LOOK_S: Final = 0.1
_TRIES: Final = 3
_SCRIPT: Final = r"""
probe="$1/.starforge-doctor-$2"
tell() { printf '%s %s\n' "$1" "${2//$'\n'/ }"; }
write() {
  printf %s "$2" >"$probe.new" || return
  mv "$probe.new" "$probe" || return
  [ "$(<"$probe")" = "$2" ] || { echo "what was read back is not what was written"; return 1; }
}
if command -v mv >/dev/null && command -v rm >/dev/null; then
  if said=$(write "$@" 2>&1); then echo "storage ok"; else tell "storage failed" "$said"; fi
  rm -f "$probe" "$probe.new"
else
  echo "storage unable"
fi
if said=$({ : <>"/dev/tcp/$3/$4"; } 2>&1); then echo "ingest ok"; else tell "ingest failed" "$said"; fi
"""


def check_in_container(engine: Engine, identity: NodeIdentity, owner: tuple[int, int] | None) -> list[Finding]:
    """Start it from an image that is present, read what it says and remove it; nothing is pulled."""
    if owner is None:
        return _leave_out("whose the share is, and with it the job's user, is not known", "mend the storage first")
    try:
        images = sorted(engine.list_images(), key=lambda image: int(image.get("Size", 0)))
        tagged = [tag for image in images for tag in image.get("RepoTags") or () if not tag.startswith("<none>")]
        why = ""
        for image in tagged[:_TRIES]:
            said = _try_image(engine, image, identity, owner)
            if not isinstance(said, StarForgeError):
                return _read_answers(said, identity, owner)
            why = f"{image}: {said.what}"
    except StarForgeError as error:
        return _leave_out(error.what, error.next_step or "look at the engine")
    if why:
        return _leave_out(f"no container with bash could be started: {why}", "pull an image that jobs use, then again")
    return _leave_out("no image is here to start a container from", "pull an image that jobs use, then run this again")


def _try_image(
    engine: Engine, image: str, identity: NodeIdentity, owner: tuple[int, int]
) -> list[str] | StarForgeError:
    """The lines that the container printed, or why it did not start."""
    body = _build_body(image, identity, owner)
    try:
        with _created(engine, body) as container:
            try:
                engine.start(container)
            except StarForgeError as error:
                return error
            _wait_end(engine, container)
            return (
                b"".join(content for stream, content in engine.logs(container, "0") if stream == "stdout")
                .decode(errors="replace")
                .splitlines()
            )
    except StarForgeError as error:
        return error


@contextmanager
def _created(engine: Engine, body: dict[str, object]) -> Iterator[str]:
    container = str(engine.create(f"starforge-doctor-{secrets.token_hex(6)}", body)["Id"])
    try:
        yield container
    finally:
        engine.remove(container, force=True)


def _build_body(image: str, identity: NodeIdentity, owner: tuple[int, int]) -> dict[str, object]:
    host, port = find_endpoint(identity.ingest_url)
    root = identity.storage_root
    return {
        "Image": image,
        "Entrypoint": ["bash"],
        "Cmd": ["-c", _SCRIPT, "doctor", root, secrets.token_hex(8), host, str(port)],
        "Env": ["NVIDIA_VISIBLE_DEVICES=void", "LC_ALL=C"],
        "User": f"{owner[0]}:{owner[1]}",
        "Labels": {LABEL: identity.node},
        "Healthcheck": {"Test": ["NONE"]},
        "HostConfig": {
            "NetworkMode": "bridge",
            "ExtraHosts": [f"{OWN_NAME}:host-gateway"],
            "Mounts": [{"Type": "bind", "Source": root, "Target": root, "ReadOnly": False}],
            "LogConfig": {"Type": "json-file", "Config": {"max-size": "1m"}},
            "RestartPolicy": {"Name": "no"},
        },
    }


def _wait_end(engine: Engine, container: str) -> None:
    """Until it has ended, or for as long as anything may take; what it has said until then counts."""
    deadline = time.monotonic() + _LIMIT_S
    while time.monotonic() < deadline:
        if engine.inspect(container)["State"]["Status"] == State.EXITED.value:
            return
        time.sleep(_LOOK_S)


def _read_answers(lines: list[str], identity: NodeIdentity, owner: tuple[int, int]) -> list[Finding]:
    """Pure. A line is the engine's time, what it is about, how it went, and why."""
    said: dict[str, tuple[str, str]] = {}
    for line in lines:
        _time, about, how, *why = [*line.split(" ", 3), "", ""][:4]
        said[about] = (how, " ".join(why).strip())
    return [_judge_storage(said, identity, owner), _judge_ingest(said, identity)]


def _judge_storage(said: dict[str, tuple[str, str]], identity: NodeIdentity, owner: tuple[int, int]) -> Finding:
    root, user = identity.storage_root, f"{owner[0]}:{owner[1]}"
    match said.get("storage"):
        case ("ok", _):
            return passed(STORAGE, f"user {user} writes, renames and reads back in {root}")
        case ("failed", why):
            return failed(STORAGE, f"user {user} cannot use {root}: {why}", _advise_storage(owner[0]))
        case ("unable", _):
            return unchecked(STORAGE, "the image has no mv and rm", "pull an image that jobs use, then run this again")
        case _:
            return failed(STORAGE, f"{root} did not answer within {_LIMIT_S:g} s", "look at the share's server")


def _advise_storage(uid: int) -> str:
    if uid == 0:
        return (
            "an export with root_squash maps root to nobody: give the storage root to a user of the share (chown), "
            "whom jobs then run as"
        )
    return "let that user write there: check the export's options (ro, all_squash) and the folder's mode"


def _judge_ingest(said: dict[str, tuple[str, str]], identity: NodeIdentity) -> Finding:
    how, why = said.get("ingest", ("silent", f"no answer within {_LIMIT_S:g} s"))
    if how == "ok":
        return passed(INGEST, f"a container reaches {identity.ingest_url}")
    reason = why.rsplit(": ", 1)[-1]
    advice = "open the console's ingest port for this machine's containers, or correct FORGE_INGEST_URL on the console"
    return failed(INGEST, f"a container does not reach {identity.ingest_url}: {reason}", advice)


def _leave_out(why: str, next_step: str) -> list[Finding]:
    return [unchecked(STORAGE, why, next_step), unchecked(INGEST, why, next_step)]
