"""The network, proxies, certificates, ports, and services that a training talks to."""

import re
from typing import Final

from starforge.diagnosis.answer import Category, Confidence
from starforge.diagnosis.rule import JSON_ERROR, Pattern, Rule, Weight, error, printed, raised

HUB: Final = (
    Rule(
        kind="hub_id_unset",
        category=Category.HF_NOT_FOUND,
        patterns=(
            printed(
                "https://huggingface.co/",
                r"for url: https://huggingface\.co/(?:datasets/|api/models/|"
                r"api/datasets/)?(?P<name>None|null|undefined|nan)/",
            ),
        ),
        summary="The model or dataset that was asked for is called {name}: a setting or variable is not set.",
        advice="Find where the name comes from, and set it. It is no question of the token.",
        source="https://github.com/unitaryai/detoxify/issues/99",
    ),
    Rule(
        kind="hub_gated",
        category=Category.HF_GATED,
        patterns=(
            printed(
                "authorized list",
                r"^Access to (?:model|dataset) \S+ is restricted and you are not in the authorized list",
            ),
            printed("awaiting a review", r"^Your request to access (?:model|dataset) \S+ is awaiting a review"),
            printed(
                "has been rejected by the repo's authors",
                r"^Your request to access (?:model|dataset) \S+ has been rejected",
            ),
            error("403 Client Error", "GatedRepoError"),
        ),
        summary="The model's owner has to allow access first, and has not done so for this account.",
        advice="Ask for access on the model's page with the account of the token, and wait until it is granted.",
        source="https://huggingface.co/docs/hub/models-gated",
    ),
    Rule(
        kind="hub_token_missing",
        category=Category.HF_AUTH,
        patterns=(
            printed(
                "authenticated to access it",
                r"^Access to (?:model|dataset) \S+ is restricted\. You must "
                r"(?:have access to it and be|be) authenticated to access it",
            ),
            printed("Invalid credentials in Authorization header", r"^Invalid credentials in Authorization header"),
            raised("LocalTokenNotFoundError", "LocalTokenNotFoundError"),
            error("Invalid user token", "HfHubHTTPError|HTTPError|ValueError|OSError"),
        ),
        summary="No valid token of the Hugging Face Hub reached the job.",
        advice="Give the job a token (HF_TOKEN) that is still valid and may read this repository.",
        source="https://github.com/huggingface/huggingface_hub/blob/main/src/huggingface_hub/utils/_http.py",
    ),
    Rule(
        kind="hub_write_denied",
        category=Category.HF_AUTH,
        patterns=(
            printed(
                "You don't have the rights to create",
                r"You don't have the rights to create a (?:model|dataset|space) under the namespace",
            ),
            error("Cannot access content at: https://huggingface.co", "HfHubHTTPError|HTTPError"),
        ),
        summary="The token may not write to the repository on the Hub.",
        advice="Use a token with the right to write, or leave push_to_hub out.",
        source="https://huggingface.co/docs/hub/security-tokens",
    ),
    Rule(
        kind="hub_not_found",
        category=Category.HF_NOT_FOUND,
        patterns=(
            printed("Not Found for url", r"^(?:Repository|Revision|Entry) Not Found for url: https?://\S+"),
            printed(
                "is not a local folder", r"^OSError: [^/.\s]\S{0,200} is not a local folder and is not a valid model"
            ),
            error("does not appear to have a file named", "OSError|EnvironmentError"),
            error("doesn't exist on the Hub or cannot be accessed", "DatasetNotFoundError"),
            error("is not a valid git identifier", "OSError"),
            error(
                "Can't load ", "OSError", r"(?:the configuration of|tokenizer for|the model for|image processor for)"
            ),
            error("No such file '", "EntryNotFoundError|OSError"),
        ),
        summary="The repository, its revision or a file in it does "
        "not exist on the Hub, or this account does not see it.",
        advice="Check owner, name, revision and file name; for a private repository, the token.",
        source="https://github.com/huggingface/huggingface_hub/blob/main/src/huggingface_hub/errors.py",
    ),
    Rule(
        kind="hub_offline",
        category=Category.NETWORK,
        patterns=(
            raised("OfflineModeIsEnabled", "OfflineModeIsEnabled"),
            error("outgoing traffic has been disabled", "LocalEntryNotFoundError|OSError|ConnectionError"),
        ),
        summary="It wanted something of the Hub while offline mode is on, and it is not in the cache.",
        advice="Name the model or dataset in the job's inputs, so that it is there before the start.",
        source="https://github.com/huggingface/huggingface_hub/blob/main/src/huggingface_hub/errors.py",
    ),
    Rule(
        kind="hub_rate_limit",
        category=Category.NETWORK,
        patterns=(
            error("429 Client Error: Too Many Requests for url", "HTTPError|HfHubHTTPError"),
            error("Client error '429 Too Many Requests'", "HTTPStatusError|HfHubHTTPError"),
        ),
        summary="The server refused further requests for a while (429).",
        advice="Give the job a token, start fewer jobs at the same time, or let it use a shared cache.",
        source="https://huggingface.co/docs/hub/rate-limits",
        retryable=True,
    ),
    Rule(
        kind="remote_code",
        category=Category.CONFIG_KEY,
        patterns=(
            error("trust_remote_code=True", "ValueError"),
            error("requires you to execute the", "ValueError", r" \w+ file in that repo"),
        ),
        summary="The model or dataset brings code of its own, which may only run when that is allowed.",
        advice="Read that code, pin its revision, and set trust_remote_code: true.",
        source="https://github.com/huggingface/transformers/blob/main/src/transformers/dynamic_module_utils.py",
    ),
    Rule(
        kind="hub_unauthorized",
        category=Category.HF_AUTH,
        patterns=(
            error("401 Client Error: Unauthorized for url: https://huggingface.co/", "HTTPError|HfHubHTTPError"),
            error("401 Client Error", "RepositoryNotFoundError|GatedRepoError|HfHubHTTPError"),
        ),
        summary="The Hub did not accept the request's token, or there was none.",
        advice="Give the job a valid token (HF_TOKEN), and check the repository's name: a wrong one looks the same.",
        source="https://github.com/huggingface/huggingface_hub/blob/main/src/huggingface_hub/utils/_http.py",
        weight=Weight.SYMPTOM,
        confidence=Confidence.LIKELY,
    ),
)

SERVICES: Final = (
    Rule(
        kind="proxy_refused",
        category=Category.PROXY,
        patterns=(
            printed("Tunnel connection failed", r"(?:Error|OSError)\(?'?:? ?'?Tunnel connection failed: \d{3}"),
            error("Cannot connect to proxy", "ProxyError"),
            error("407 Proxy Authentication Required", "ProxyError|HTTPError|HTTPStatusError"),
            raised("ProxyError", "ProxyError"),
        ),
        summary="The proxy refused the way out, not the site itself.",
        advice="Have the proxy allow this host, or use a mirror inside; names that need no proxy belong into NO_PROXY.",
        source="https://github.com/zylon-ai/private-gpt/issues/1849",
    ),
    Rule(
        kind="certificate",
        category=Category.TLS,
        patterns=(
            error(
                "CERTIFICATE_VERIFY_FAILED",
                "SSLError|SSLCertVerificationError|URLError|ConnectError|ClientConnectorCertificateError|MaxRetryError",
            ),
            error("certificate verify failed", "SSLError|SSLCertVerificationError|ConnectError"),
        ),
        summary="The certificate of the site was not accepted, as behind a proxy that opens connections.",
        advice="Put the organisation's certificate into the image and name it in SSL_CERT_FILE and REQUESTS_CA_BUNDLE; "
        "check the machine's clock.",
        source="https://docs.python.org/3/library/ssl.html#ssl.SSLCertVerificationError",
    ),
    Rule(
        kind="tls_broken",
        category=Category.TLS,
        patterns=(
            error("WRONG_VERSION_NUMBER", "SSLError|ConnectError|MaxRetryError"),
            error("UNEXPECTED_EOF_WHILE_READING", "SSLError|SSLEOFError|ConnectError|MaxRetryError"),
        ),
        summary="The other side did not speak TLS as expected, as when a proxy or firewall stands between.",
        advice="Check the address (http or https) and the proxy settings.",
        source="https://github.com/psf/requests/issues/5297",
        confidence=Confidence.LIKELY,
    ),
    Rule(
        kind="name_resolution",
        category=Category.NETWORK,
        patterns=(
            error(
                "Temporary failure in name resolution",
                "gaierror|ConnectionError|NameResolutionError|ConnectError|OSError|RuntimeError|URLError|MaxRetryError",
            ),
            error(
                "Name or service not known",
                "gaierror|ConnectionError|NameResolutionError|ConnectError|OSError|RuntimeError|URLError|MaxRetryError",
            ),
        ),
        summary="The name of another machine could not be resolved.",
        advice="Check the name, and whether the job may reach the network and its name server at all.",
        source="https://docs.python.org/3/library/socket.html#socket.gaierror",
    ),
    Rule(
        kind="port_not_allowed",
        category=Category.PORT_NOT_ALLOWED,
        patterns=(
            error("errno: 13 - Permission denied", "DistNetworkError|RuntimeError"),
            error(
                "error while attempting to bind on address",
                "PermissionError|OSError",
                r".{0,80}(?:permission denied|Permission denied)",
            ),
        ),
        summary="It may not listen on that port.",
        advice="Use a port above 1023, or leave MASTER_PORT to the platform.",
        source="https://github.com/pytorch/pytorch/blob/main/torch/csrc/distributed/c10d/socket.cpp",
    ),
    Rule(
        kind="port_in_use",
        category=Category.PORT_IN_USE,
        patterns=(
            error("EADDRINUSE", "DistNetworkError|RuntimeError"),
            Pattern(
                " already in use",
                re.compile(
                    r"(?:[\w.]+\.)?(?:OSError|DistNetworkError|RuntimeError|ZMQError|RendezvousConnectionError): "
                    r".{0,300}?(?i:address already in use)"
                ),
                is_error=True,
            ),
            error("[Errno 98] error while attempting to bind on address", "OSError"),
            printed("[Errno 98]", r"^ERROR: {1,8}\[Errno 98\] error while attempting to bind on address"),
        ),
        summary="Another process already listens on that port.",
        advice="Leave MASTER_PORT out, so that a free port is taken, or choose another; a process that was left over "
        "holds it otherwise.",
        source="https://github.com/pytorch/pytorch/blob/main/torch/csrc/distributed/c10d/socket.cpp",
    ),
    Rule(
        kind="tracking_login",
        category=Category.TRACKING_SERVICE,
        patterns=(
            error("api_key not configured (no-tty)", "UsageError"),
            error("permission denied", "CommError|AuthenticationError", r".{0,200}"),
            error("No API key configured", "UsageError"),
            error("run `wandb login`", "UsageError|CommError|AuthenticationError"),
        ),
        summary="The tracking service (Weights & Biases) did not accept the job: no key, or no right to the project.",
        advice="Give the job WANDB_API_KEY, or set report_to to something else: the platform draws the curves anyway.",
        source="https://github.com/wandb/wandb/blob/main/wandb/sdk/lib/apikey.py",
    ),
    Rule(
        kind="hub_storage",
        category=Category.NETWORK,
        patterns=(error("CAS service error", "RuntimeError"),),
        summary="A file could not be read from the storage of the Hugging Face Hub (Xet).",
        advice="Check that the job may reach xethub.hf.co (network, proxy, firewall), or set HF_HUB_DISABLE_XET=1; "
        "then run it again.",
        source="https://github.com/huggingface/xet-core/issues/444",
        confidence=Confidence.LIKELY,
        weight=Weight.KILL,
        retryable=True,
    ),
    Rule(
        kind="reply_not_json",
        category=Category.NETWORK,
        patterns=(JSON_ERROR,),
        summary="A service that it asked did not answer with JSON.",
        advice="Look at what that service answers: most often it is down, overloaded, or something between answers "
        "in its place.",
        source="https://requests.readthedocs.io/en/latest/api/#requests.JSONDecodeError",
        confidence=Confidence.LIKELY,
        weight=Weight.KILL,
        above=re.compile(r"/(?:requests/models|httpx/_models|simplejson/\w{1,20}|aiohttp/client_reqrep)\.py"),
    ),
    Rule(
        kind="site_unreachable",
        category=Category.NETWORK,
        patterns=(
            error("We couldn't connect to 'https://", "OSError|EnvironmentError"),
            error("we cannot find the requested files in the local cache", "LocalEntryNotFoundError|OSError"),
            error("Couldn't reach ", "ConnectionError"),
            raised("ConnectTimeoutError|ConnectTimeout|ConnectError", "Connect"),
            raised("ReadTimeoutError|ReadTimeout", "ReadTimeout"),
            error("Max retries exceeded with url", "ConnectionError|MaxRetryError|SSLError"),
            error("Network is unreachable", "OSError|ConnectionError|ConnectError"),
            error("No route to host", "OSError|ConnectionError|ConnectError"),
            error("[Errno 111] Connection refused", "ConnectionRefusedError|ConnectError|OSError"),
            error("Server Error", "HTTPError|HfHubHTTPError", r": .{1,60} for url"),
        ),
        summary="Another machine or site could not be reached.",
        advice="Check that the job may reach it (network, proxy, firewall), and that it is up; then run it again.",
        source="https://requests.readthedocs.io/en/latest/api/#exceptions",
        confidence=Confidence.LIKELY,
        weight=Weight.KILL,
        retryable=True,
    ),
    Rule(
        kind="connection_lost",
        category=Category.NETWORK,
        patterns=(
            error(
                "Connection reset by peer",
                "ConnectionResetError|ConnectionError|RuntimeError|OSError|DistNetworkError|ReadError",
            ),
            error("Connection closed by peer", "RuntimeError"),
            error("Connection broken: ", "ChunkedEncodingError|ProtocolError"),
            error("Remote end closed connection without response", "ConnectionError|RemoteDisconnected"),
        ),
        summary="A connection broke off: the other side ended, or the network failed.",
        advice="Look for the first error of the other processes; otherwise run it again.",
        source="https://docs.python.org/3/library/exceptions.html#ConnectionResetError",
        weight=Weight.LAST,
        confidence=Confidence.LOW,
        retryable=True,
    ),
)
