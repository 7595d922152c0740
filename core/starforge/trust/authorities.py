"""Whom a caller trusts where the other side shows a certificate of an authority: what the system trusts."""

import asyncio
import ssl
import threading

import httpx2


class Authorities:
    """The authorities that the system trusts, or those in `SSL_CERT_FILE`: read once, however many ask at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._context: ssl.SSLContext | None = None

    async def load(self) -> ssl.SSLContext:
        """A context that trusts them and compares names. Reading takes tens of milliseconds, off the event loop.

        Raises:
            OSError: `SSL_CERT_FILE` cannot be read, or holds no certificates; the next call tries again.

        """
        if self._context is not None:
            return self._context
        return await asyncio.to_thread(self._load_now)

    def _load_now(self) -> ssl.SSLContext:
        with self._lock:
            context = self._context or _read()
            self._context = context
            return context


def _read() -> ssl.SSLContext:
    try:
        return httpx2.create_ssl_context()
    except OSError as error:
        why = f"the certificates of authorities (SSL_CERT_FILE) cannot be read: {error}"
        raise OSError(why) from error
