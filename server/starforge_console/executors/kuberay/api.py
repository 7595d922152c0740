"""The API server over HTTP: the few calls that are needed, each with a time-out.

Where the cluster is and who we are comes from lightkube: kubeconfig files, plugins that fetch tokens, and the account
of a pod, whose token is read anew when it has been renewed. The calls are our own, since it knows no bookmarks of a
watch and drops what the server says of a refusal.
"""

import json
import ssl
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, Final

import httpx2
from lightkube.config.client_adapter import ConnectionParams
from lightkube.config.kubeconfig import KubeConfig, SingleConfig
from lightkube.config.models import User
from lightkube.core.exceptions import ConfigError
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from starforge.said.sentence import say
from starforge_console.executors.kuberay.replies import Expired, KubeRefused, KubeSilent, check_read, check_write
from starforge_console.executors.kuberay.settings import KubeSettings

CONNECT_TIMEOUT_S: Final = 5.0
PAGE: Final = 250
WATCH_S: Final = 300
"""How long a watch goes on before the server is to end it; it is then taken up again."""
_MANAGER: Final = "starforge"
_CREDENTIALS: Final = (ConfigError, YAMLError, OSError, KeyError, ValueError, TypeError, AttributeError, ssl.SSLError)
"""What is raised for a kubeconfig that cannot be used: lightkube does not look at its form."""
_PLUGIN: Final = (KeyError, ValueError, TypeError)
"""What is raised in a call for a plugin of the kubeconfig's that answers something other than a token."""

Document = Mapping[str, Any]


class KubeApi:
    """One cluster. Every call raises KubeSilent where nothing is known afterwards."""

    def __init__(self, settings: KubeSettings) -> None:
        self._settings = settings
        self._client: httpx2.AsyncClient | None = None
        self._url = "the cluster"

    async def close(self) -> None:
        """End the connections; the next call opens new ones."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def find(self, path: str) -> Document | None:
        """The object there; None when the server answers that there is none."""
        try:
            return await self._read(path, {})
        except KubeRefused:
            return None
        except Expired as error:
            raise KubeSilent(say("kuberay.no_answer", why="410")) from error

    async def list_all(self, path: str, **params: str) -> tuple[list[Document], str]:
        """Every object there, asked for in pages, and the version that a watch can go on from."""
        for _ in range(2):
            try:
                return await self._list_pages(path, params)
            except Expired:  # the list changed for longer than the server remembers: from its beginning, once
                continue
            except KubeRefused as error:
                raise KubeSilent(say("kuberay.no_answer", why=error.words), status=error.status) from error
        raise KubeSilent(say("kuberay.no_answer", why="410 Expired"))

    async def apply(self, path: str, document: Document, *, dry_run: bool = False) -> Document:
        """See to it that the object is like that. Raises KubeRefused where the server says no."""
        params = {"fieldManager": _MANAGER, "force": "false", "fieldValidation": "Strict"}
        return await self._write(
            "PATCH",
            path,
            {**params, **({"dryRun": "All"} if dry_run else {})},
            json.dumps(document).encode(),
            "application/apply-patch+yaml",
        )

    async def create(self, path: str, document: Document) -> Document:
        """Make the object. Raises KubeRefused where the server says no."""
        return await self._write("POST", path, {}, json.dumps(document).encode(), "application/json")

    async def delete(self, path: str, uid: str = "") -> None:
        """Delete the object, if it has that uid; what is not there needs no deleting."""
        options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        if uid:
            options["preconditions"] = {"uid": uid}
        try:
            await self._write("DELETE", path, {}, json.dumps(options).encode(), "application/json")
        except KubeRefused as error:
            if error.status not in {404, 409}:
                raise KubeSilent(say("kuberay.refused", why=error.words), status=error.status) from error

    async def watch(self, path: str, version: str, **params: str) -> AsyncIterator[Document]:
        """What changes there after that version, until the server ends it. Raises Expired."""
        asked = {
            **params,
            "watch": "1",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(WATCH_S),
        }
        timeout = httpx2.Timeout(self._settings.request_timeout_s, connect=CONNECT_TIMEOUT_S, read=WATCH_S + 30.0)
        try:
            async with self._open().stream("GET", path, params=asked, timeout=timeout) as answer:
                if answer.status_code != httpx2.codes.OK:
                    self._look_again_if_unknown(answer)
                    await answer.aread()
                    check_read(answer.status_code, _parse(answer), answer.headers)
                async for line in answer.aiter_lines():
                    if line.strip():
                        yield _read_event(line)
        except KubeRefused as error:
            raise KubeSilent(say("kuberay.no_answer", why=error.words), status=error.status) from error
        except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError, OSError, ConfigError, *_PLUGIN) as error:
            raise self._unreachable(error) from error

    async def _list_pages(self, path: str, params: Mapping[str, str]) -> tuple[list[Document], str]:
        found: list[Document] = []
        more = ""
        while True:
            page = await self._read(path, {**params, "limit": str(PAGE), **({"continue": more} if more else {})})
            items, metadata = page.get("items"), page.get("metadata")
            # What stands between may answer in the server's place, and an empty list would say that nothing runs.
            is_list = str(page.get("kind")).endswith("List") and isinstance(items or [], list)
            if not is_list or not isinstance(metadata, dict):
                raise KubeSilent(say("kuberay.no_answer", why=say("kuberay.no_list", path=path)))
            found += [one for one in items or () if isinstance(one, dict)]
            more = str(metadata.get("continue") or "")
            if not more:
                return found, str(metadata.get("resourceVersion") or "")

    async def _read(self, path: str, params: Mapping[str, str]) -> Document:
        answer = await self._ask("GET", path, params)
        document = _parse(answer)
        check_read(answer.status_code, document, answer.headers)
        return dict(document)

    async def _write(self, method: str, path: str, params: Mapping[str, str], body: bytes, kind: str) -> Document:
        answer = await self._ask(method, path, params, body, kind)
        document = _parse(answer)
        check_write(answer.status_code, document, answer.headers)
        return dict(document)

    async def _ask(
        self, method: str, path: str, params: Mapping[str, str], body: bytes | None = None, kind: str = ""
    ) -> httpx2.Response:
        headers = {"content-type": kind} if kind else {}
        try:
            answer = await self._open().request(method, path, params=dict(params), content=body, headers=headers)
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ConfigError, *_PLUGIN) as error:
            raise self._unreachable(error) from error
        self._look_again_if_unknown(answer)
        return answer

    def _look_again_if_unknown(self, answer: httpx2.Response) -> None:
        """Let the next call read the kubeconfig anew where the server does not know us: somebody may have renewed it.

        What goes on by the old client, such as a watch, ends by itself.
        """
        if answer.status_code == httpx2.codes.UNAUTHORIZED:
            self._client = None

    def _unreachable(self, error: Exception) -> KubeSilent:
        words = str(error) or type(error).__name__
        if isinstance(error, httpx2.LocalProtocolError):  # its words are the header's, and the token's with it
            return self._without_credentials(say("kuberay.token_unfit"))
        if isinstance(error, ConfigError):
            return self._without_credentials(words)
        if isinstance(error, _PLUGIN):  # the words of a parser could hold what the plugin said
            return self._without_credentials(say("kuberay.plugin_unfit"))
        return KubeSilent(
            say("kuberay.unreachable", url=self._url, why=words), next_step=say("kuberay.unreachable_next")
        )

    def _without_credentials(self, words: str) -> KubeSilent:
        is_in_pod = self._settings.kubeconfig is None
        next_step = say("kuberay.no_account_next") if is_in_pod else say("kuberay.no_credentials_next")
        return KubeSilent(say("kuberay.no_credentials", why=words), next_step=next_step)

    def _open(self) -> httpx2.AsyncClient:
        if self._client is None:
            timeout = httpx2.Timeout(self._settings.request_timeout_s, connect=CONNECT_TIMEOUT_S)
            try:
                config = load_config(self._settings)
                # A proxy of the environment's would answer in the server's place.
                given = ConnectionParams(timeout=timeout, trust_env=False).httpx_params(config)
            except _CREDENTIALS as error:
                raise self._without_credentials(str(error) or type(error).__name__) from error
            self._url = str(config.cluster.server)
            # No connection is kept: a server that restarted would be met first by the call that finds its own cut.
            self._client = httpx2.AsyncClient(**given, limits=httpx2.Limits(max_keepalive_connections=0))
        return self._client


def load_config(settings: KubeSettings) -> SingleConfig:
    """Where the cluster is and who we are. Raises what lightkube does, which is many things."""
    if settings.kubeconfig is None:
        whole = KubeConfig.from_service_account()
    else:
        with settings.kubeconfig.open(encoding="utf-8") as file:
            found = YAML(typ="safe").load(file)
        whole = KubeConfig.from_dict(found, fname=settings.kubeconfig)
    config = whole.get(settings.context or None)
    if config is None:
        raise ConfigError("no current context")
    user = config.user or User()
    # The TLS library would not say which of them is missing.
    for name in (config.cluster.certificate_auth, user.client_cert, user.client_key):
        if name and not Path(config.abs_file(name)).is_file():
            raise ConfigError(f"{name}: no such file")
    return config._replace(user=user)


def _parse(answer: httpx2.Response) -> Any:  # noqa: ANN401 - parsed JSON, or a text
    try:
        return answer.json()
    except (ValueError, RecursionError):
        return answer.text


def _read_event(line: str) -> Document:
    """One event of a watch. Raises Expired and KubeSilent for those that tell of an error."""
    try:
        event = json.loads(line)
    except ValueError as error:
        raise KubeSilent(say("kuberay.no_answer", why=say("kuberay.no_event", words=line[:100]))) from error
    if not isinstance(event, dict):
        raise KubeSilent(say("kuberay.no_answer", why=say("kuberay.no_event", words=line[:100])))
    if event.get("type") == "ERROR":
        status = event.get("object")
        code = status.get("code") if isinstance(status, dict) else 0
        check_read(code if isinstance(code, int) else 0, status, {})
    return event
