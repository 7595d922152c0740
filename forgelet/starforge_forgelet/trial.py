"""One throw-away container, as a job's would be: can the job's user write to the share, and is ingest reached?"""

import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from starforge.containers.engine import Engine
from starforge.containers.labels import State
from starforge.containers.spec import OWN_NAME
from starforge.contract.launch import IMAGE_USER
from starforge.errors import StarForgeError
from starforge_forgelet.findings import Finding, Outcome, failed, passed, unchecked
from starforge_forgelet.network_checks import find_endpoint
from starforge_forgelet.state import NodeIdentity
from starforge_forgelet.storage_checks import find_trial_trouble

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
if [ -z "$1" ]; then
  :
elif command -v mv >/dev/null && command -v rm >/dev/null; then
  if said=$(write "$@" 2>&1); then echo "storage ok"; else tell "storage failed" "$said"; fi
  rm -f "$probe" "$probe.new"
else
  echo "storage unable"
fi
if said=$({ : <>"/dev/tcp/$3/$4"; } 2>&1); then echo "ingest ok"; else tell "ingest failed" "$said"; fi
"""


def check_in_container(engine: Engine, identity: NodeIdentity, storage: Finding) -> list[Finding]:
    """Try `storage` and ingest as the jobs' user, in the folder that the console made for that user.

    The container is started from an image that is present and removed; nothing is pulled.
    """
    if storage.state is Outcome.FAILED:
        return _leave_out("the console's share is not to be used here", "mend the storage first")
    if not identity.job_user:
        return _leave_out("the console did not say whom jobs run as", "upgrade the console, then join again")
    trouble = find_trial_trouble(identity)
    found = _try_images(engine, identity, "" if trouble else identity.trial_folder)
    if not trouble:
        return found
    user = _name_user(identity)
    message = f"the console made no folder for {user} to write in, so no job could start: {trouble}"
    advice = "export the share to the console read-write and with no_root_squash, then run 'forgelet join' again"
    return [failed(STORAGE, message, advice), *found[1:]]


def _try_images(engine: Engine, identity: NodeIdentity, folder: str) -> list[Finding]:
    try:
        images = sorted(engine.list_images(), key=lambda image: int(image.get("Size", 0)))
        tagged = [tag for image in images for tag in image.get("RepoTags") or () if not tag.startswith("<none>")]
        why = ""
        for image in tagged[:_TRIES]:
            said = _try_image(engine, _build_body(image, identity, folder))
            if not isinstance(said, StarForgeError):
                return _read_answers(said, identity)
            why = f"{image}: {said.what}"
    except StarForgeError as error:
        return _leave_out(error.what, error.next_step or "look at the engine")
    if why:
        return _leave_out(f"no container with bash could be started: {why}", "pull an image that jobs use, then again")
    return _leave_out("no image is here to start a container from", "pull an image that jobs use, then run this again")


def _try_image(engine: Engine, body: dict[str, object]) -> list[str] | StarForgeError:
    """The lines that the container printed, or why it did not start."""
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


def _build_body(image: str, identity: NodeIdentity, folder: str) -> dict[str, object]:
    """As a job's: the folder alone of the share is mounted (none where `folder` is empty), and is where it starts."""
    host, port = find_endpoint(identity.ingest_url)
    mount = {"Type": "bind", "Source": folder, "Target": folder, "ReadOnly": False}
    user = {} if identity.job_user == IMAGE_USER else {"User": identity.job_user}
    return {
        "Image": image,
        "Entrypoint": ["bash"],
        "Cmd": ["-c", _SCRIPT, "doctor", folder, secrets.token_hex(8), host, str(port)],
        "Env": ["NVIDIA_VISIBLE_DEVICES=void", "LC_ALL=C"],
        **user,
        "WorkingDir": folder or "/",
        "Labels": {LABEL: identity.node},
        "Healthcheck": {"Test": ["NONE"]},
        "HostConfig": {
            "NetworkMode": "bridge",
            "ExtraHosts": [f"{OWN_NAME}:host-gateway"],
            "Mounts": [mount] if folder else [],
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


def _read_answers(lines: list[str], identity: NodeIdentity) -> list[Finding]:
    """Pure. A line is the engine's time, what it is about, how it went, and why."""
    said: dict[str, tuple[str, str]] = {}
    for line in lines:
        _time, about, how, *why = [*line.split(" ", 3), "", ""][:4]
        said[about] = (how, " ".join(why).strip())
    return [_judge_storage(said, identity), _judge_ingest(said, identity)]


def _judge_storage(said: dict[str, tuple[str, str]], identity: NodeIdentity) -> Finding:
    folder, user = identity.trial_folder, _name_user(identity)
    match said.get("storage"):
        case ("ok", _):
            return passed(STORAGE, f"{user} writes, renames and reads back in {folder}, as in a job's folder")
        case ("failed", why):
            return failed(STORAGE, f"{user} cannot write in {folder}: {why}", _advise_storage(identity.job_user, why))
        case ("unable", _):
            return unchecked(STORAGE, "the image has no mv and rm", "pull an image that jobs use, then run this again")
        case _:
            return failed(STORAGE, f"{folder} did not answer within {_LIMIT_S:g} s", "look at the share's server")


def _advise_storage(user: str, why: str) -> str:
    if "read-only" in why.lower():
        return "the share is read-only for this machine: export it read-write (rw), and mount it so"
    if user.startswith("0:"):
        return (
            "an export with root_squash maps root to nobody: let jobs run as a user of the share"
            " (FORGE_JOB_UID and FORGE_JOB_GID of the console, or the fleet's user), then join again"
        )
    return (
        "the folder was made for that user: an export with all_squash, or a mount that maps users, makes somebody else"
        " of it here; let user numbers through"
    )


def _name_user(identity: NodeIdentity) -> str:
    return "the image's own user" if identity.job_user == IMAGE_USER else f"user {identity.job_user}"


def _judge_ingest(said: dict[str, tuple[str, str]], identity: NodeIdentity) -> Finding:
    how, why = said.get("ingest", ("silent", f"no answer within {_LIMIT_S:g} s"))
    if how == "ok":
        return passed(INGEST, f"a container reaches {identity.ingest_url}")
    reason = why.rsplit(": ", 1)[-1]
    advice = "open the console's ingest port for this machine's containers, or correct FORGE_INGEST_URL on the console"
    return failed(INGEST, f"a container does not reach {identity.ingest_url}: {reason}", advice)


def _leave_out(why: str, next_step: str) -> list[Finding]:
    return [unchecked(STORAGE, why, next_step), unchecked(INGEST, why, next_step)]
