"""The least that could serve a row over HTTP: Starlette, raw sqlite3, no authentication. `python -m bench.sketch FILE`.

Prints a JSON line with its port and ends with its standard input.
"""

import json
import socket
import sqlite3
import sys
import threading
from itertools import count

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

_TABLE = "CREATE TABLE jobs (id INTEGER PRIMARY KEY, name TEXT, state TEXT, spec TEXT, submitted_at REAL)"
_INSERT = "INSERT INTO jobs VALUES (?, ?, 'QUEUED', ?, 0.0)"
_SELECT = "SELECT id, name, state, submitted_at FROM jobs ORDER BY id DESC LIMIT 1"


def build_sketch(file: str) -> Starlette:
    """One table, one row read, one row inserted, each durable before it is answered."""
    database = sqlite3.connect(file, isolation_level=None)
    for pragma in ("journal_mode=WAL", "synchronous=FULL"):
        database.execute(f"PRAGMA {pragma}")
    database.execute(_TABLE)
    numbers = count(1)

    async def read(_request: Request) -> Response:
        columns = ("id", "name", "state", "submitted_at")
        row = dict(zip(columns, database.execute(_SELECT).fetchone(), strict=True))
        return Response(json.dumps({"items": [row]}), media_type="application/json")

    async def insert(request: Request) -> Response:
        spec = json.loads(await request.body())["spec"]
        number = next(numbers)
        database.execute(_INSERT, (number, spec["metadata"]["name"], json.dumps(spec)))
        return Response(json.dumps({"job": number}), 201, media_type="application/json")

    return Starlette(routes=[Route("/api/v1/jobs", read), Route("/api/v1/jobs", insert, methods=["POST"])])


def main(file: str) -> None:
    """Serve until standard input ends."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    config = uvicorn.Config(build_sketch(file), log_config=None, access_log=False, lifespan="off", ws="none")
    server = uvicorn.Server(config)

    def end_with_input() -> None:
        sys.stdin.read()
        server.should_exit = True

    threading.Thread(target=end_with_input, daemon=True).start()
    print(json.dumps({"port": listener.getsockname()[1]}), flush=True)
    server.run(sockets=[listener])


if __name__ == "__main__":
    main(sys.argv[1])
