"""A real API server of custom resources over a real etcd, with KubeRay's own definition of a RayJob.

It is started where the folder with its programs lies beside the project's (see `find_obstacle`); it knows no pods, no
secrets and no nodes, and no operator runs in it.
"""

import contextlib
import datetime as dt
import http.client
import ipaddress
import json
import lzma
import shutil
import socket
import ssl
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from e2e.support.console import wait_for
from e2e.support.kube.status import Document
from e2e.support.owned import owned_folder

PROGRAMS: Final = Path(__file__).resolve().parents[4] / "shared" / "kube"
_SERVER: Final = "apiextensions-apiserver"
_DEFINITION: Final = "rayjobs-crd.yaml"
_READY_S: Final = 60.0
_DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_DAY: Final = dt.timedelta(days=1)
_WITHOUT: Final = (
    "NamespaceLifecycle,MutatingAdmissionWebhook,ValidatingAdmissionWebhook,ValidatingAdmissionPolicy,"
    "MutatingAdmissionPolicy"
)


def find_obstacle() -> str | None:
    """Why no real API server can run here, or None."""
    needed = [f"{_SERVER}.xz", "etcd.xz", _DEFINITION]
    missing = [name for name in needed if not (PROGRAMS / name).is_file()]
    if missing:
        return f"a real API server needs {', '.join(missing)} in ../shared/kube beside the project"
    return None if shutil.which("setpriv") else "a real API server needs setpriv, which ends it with the test"


@dataclass(slots=True)
class RealApi:
    """A running API server; `call` speaks as its administrator. `processes` are etcd and the server."""

    root: Path
    port: int = 0
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    _context: ssl.SSLContext | None = None

    def up(self) -> None:
        """Start etcd and the server, and define RayJobs."""
        for name in ("etcd", _SERVER):
            _unpack(PROGRAMS / f"{name}.xz", self.root / name)
        _make_certificates(self.root)
        self._context = ssl.create_default_context(cafile=self.root / "ca.crt")
        self._context.load_cert_chain(self.root / "admin.crt", self.root / "admin.key")
        with _free_ports(3) as (client, peer, self.port):
            pass
        self._start_etcd(client, peer)
        self._start_server(client)
        self._wait_until(self._serves_definitions, "answer")
        self._define()

    def down(self) -> None:
        """End both."""
        for process in reversed(self.processes):
            process.kill()
            process.wait(timeout=20)

    def connect(self, timeout_s: float = 30.0) -> http.client.HTTPSConnection:
        """A connection as its administrator."""
        return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=timeout_s, context=self._context)

    def call(
        self, method: str, path: str, body: object = None, *, form: str = "application/json"
    ) -> tuple[int, Document]:
        """Status and body of one answer."""
        connection = self.connect()
        with contextlib.closing(connection):
            content = body if isinstance(body, bytes) or body is None else json.dumps(body)
            connection.request(method, path, content, {"Content-Type": form})
            response = connection.getresponse()
            said = response.read()
            try:
                return response.status, json.loads(said)
            except ValueError:
                return response.status, {"message": said.decode(errors="replace")}

    def _start_etcd(self, client: int, peer: int) -> None:
        here = f"http://127.0.0.1:{client}"
        among = f"http://127.0.0.1:{peer}"
        self._spawn(
            "etcd",
            *("--data-dir", "data", "--unsafe-no-fsync", "--listen-client-urls", here, "--advertise-client-urls", here),
            *("--listen-peer-urls", among, "--initial-advertise-peer-urls", among),
            *("--initial-cluster", f"default={among}"),
        )

    def _start_server(self, etcd: int) -> None:
        config = self._write_config()
        self._spawn(
            _SERVER,
            *("--etcd-servers", f"http://127.0.0.1:{etcd}", "--bind-address", "127.0.0.1"),
            *("--secure-port", str(self.port), "--tls-cert-file", "server.crt", "--tls-private-key-file", "server.key"),
            *("--client-ca-file", "ca.crt", "--kubeconfig", config, "--authentication-kubeconfig", config),
            *("--authorization-kubeconfig", config, "--authentication-skip-lookup"),
            *("--disable-admission-plugins", _WITHOUT, "--enable-priority-and-fairness=false"),
        )

    def _spawn(self, program: str, *arguments: str) -> None:
        # The kernel ends it with the thread that made it, however that ends.
        argv = ["setpriv", "--pdeathsig", "KILL", str(self.root / program), *arguments]
        with (self.root / f"{program}.log").open("ab") as log:
            self.processes.append(
                subprocess.Popen(
                    argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.root, start_new_session=True
                )
            )

    def _write_config(self) -> str:
        """The server asks itself where it would ask another for who somebody is."""
        path = self.root / "kubeconfig"
        cluster = {"server": f"https://127.0.0.1:{self.port}", "certificate-authority": str(self.root / "ca.crt")}
        user = {"client-certificate": str(self.root / "admin.crt"), "client-key": str(self.root / "admin.key")}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "lab",
            "clusters": [{"name": "lab", "cluster": cluster}],
            "users": [{"name": "admin", "user": user}],
            "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "admin"}}],
        }
        path.write_text(json.dumps(config), encoding="utf-8")
        return str(path)

    def _serves_definitions(self) -> bool:
        try:
            return self.call("GET", _DEFINITIONS)[0] == http.client.OK
        except OSError:
            return False

    def _define(self) -> None:
        definition = (PROGRAMS / _DEFINITION).read_bytes()
        status, said = self.call("POST", _DEFINITIONS, definition, form="application/yaml")
        if status != http.client.CREATED:
            raise RuntimeError(f"the definition of a RayJob was refused: {said}")
        self._wait_until(self._serves_rayjobs, "serve RayJobs")

    def _serves_rayjobs(self) -> bool:
        return self.call("GET", "/apis/ray.io/v1/rayjobs")[0] == http.client.OK

    def _wait_until(self, holds: Callable[[], bool], what: str) -> None:
        def look() -> bool:
            if any(process.poll() is not None for process in self.processes):
                raise RuntimeError(f"the real API server ended before it could {what}: {self._read_logs()}")
            return holds()

        try:
            wait_for(look, f"the real API server to {what}", _READY_S)
        except TimeoutError as error:
            raise RuntimeError(f"{error}: {self._read_logs()}") from error

    def _read_logs(self) -> str:
        return "\n".join(log.read_text(errors="replace")[-1500:] for log in self.root.glob("*.log"))


@contextlib.contextmanager
def real_api() -> Iterator[RealApi]:
    """A real API server for as long as the block lasts."""
    with owned_folder() as root:
        api = RealApi(root)
        try:
            api.up()
            yield api
        finally:
            api.down()


def _unpack(packed: Path, target: Path) -> None:
    with lzma.open(packed) as source, target.open("wb") as sink:
        shutil.copyfileobj(source, sink, 1 << 20)
    target.chmod(0o755)


@contextlib.contextmanager
def _free_ports(count: int) -> Iterator[tuple[int, ...]]:
    with contextlib.ExitStack() as servers:
        yield tuple(
            servers.enter_context(socket.create_server(("127.0.0.1", 0))).getsockname()[1] for _ in range(count)
        )


def _make_certificates(folder: Path) -> None:
    """An authority, a certificate of the server's and one of an administrator's, each with its key."""
    authority_key = ec.generate_private_key(ec.SECP256R1())
    authority = _name("a test's authority")
    made = _build(authority, authority, authority_key).add_extension(
        x509.BasicConstraints(ca=True, path_length=None), critical=True
    )
    _write(folder / "ca", made.sign(authority_key, hashes.SHA256()), authority_key)
    here = x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    client = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])
    extensions: tuple[tuple[str, x509.Name, x509.ExtensionType], ...] = (
        ("server", _name("localhost"), here),
        ("admin", _name("admin", "system:masters"), client),
    )
    for file, subject, extension in extensions:
        key = ec.generate_private_key(ec.SECP256R1())
        built = _build(subject, authority, key).add_extension(extension, critical=False)
        _write(folder / file, built.sign(authority_key, hashes.SHA256()), key)


def _name(common: str, organization: str = "") -> x509.Name:
    group = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization)] if organization else []
    return x509.Name([*group, x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _build(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return x509.CertificateBuilder(
        issuer, subject, key.public_key(), x509.random_serial_number(), now - _DAY, now + _DAY
    )


def _write(stem: Path, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    stem.with_suffix(".crt").write_bytes(certificate.public_bytes(pem))
    stem.with_suffix(".key").write_bytes(private)
    stem.with_suffix(".key").chmod(0o600)
