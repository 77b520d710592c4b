"""A server with the HTTP API of Qdrant, as far as this package uses it.

There is no package with Qdrant's server. The engine is real: Qdrant Edge is Qdrant's own storage,
HNSW and filters as a library. Only the HTTP layer is written here.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

try:
    import qdrant_edge as edge
except ImportError:  # no wheel for this system
    edge = None

API_KEY = "qdrant-key-0123456789abcdef"


class QdrantServer(ThreadingHTTPServer):
    """A server on a loopback port.

    Attributes:
        collections: The collections by name.
        requests: Method and path of each request.
        fail_after: Number of further requests to answer; the others fail. None answers all.
        needs_key: Whether a request needs `API_KEY`.
    """

    daemon_threads = True

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self._folder = folder
        self._created = 0
        self.collections: dict[str, Any] = {}
        self.lock = threading.Lock()
        self.requests: list[str] = []
        self.fail_after: int | None = None
        self.needs_key = False

    @property
    def url(self) -> str:
        """The URL of the server."""
        return f"http://127.0.0.1:{self.server_port}"

    def answer(self, method: str, name: str, rest: str, body: Any) -> Any:
        """Return the result of a request for a collection."""
        if (method, rest) == ("DELETE", ""):
            return self.collections.pop(name, None) is not None
        if (method, rest) == ("GET", "exists"):
            return {"exists": name in self.collections}
        if (method, rest) == ("PUT", ""):
            if name in self.collections:
                raise ValueError(f"Wrong input: Collection `{name}` already exists!")
            self.collections[name] = self._create(body)
            return True
        if name not in self.collections:
            raise LookupError(f"Not found: Collection `{name}` doesn't exist!")
        return _ROUTES[method, rest](self.collections[name], body)

    def _create(self, body: Mapping[str, Any]) -> Any:
        hnsw = body["hnsw_config"]
        vectors = {
            key: edge.EdgeVectorParams(one["size"], getattr(edge.Distance, one["distance"]))
            for key, one in body["vectors"].items()
        }
        self._created += 1
        return edge.EdgeShard.create(
            str(self._folder / str(self._created)),
            edge.EdgeConfig(
                vectors=vectors,
                hnsw_config=edge.HnswIndexConfig(hnsw["m"], hnsw["ef_construct"], 100),
                optimizers=edge.EdgeOptimizersConfig(indexing_threshold=100),
            ),
        )


def _upsert(shard: Any, body: Any) -> Any:
    points = [edge.Point(one["id"], one["vector"], one["payload"]) for one in body["points"]]
    shard.update(edge.UpdateOperation.upsert_points(points))
    return _COMPLETED


def _index(shard: Any, body: Any) -> Any:
    schema = getattr(edge.PayloadSchemaType, body["field_schema"].capitalize())
    shard.update(edge.UpdateOperation.create_field_index(body["field_name"], schema))
    return _COMPLETED


def _retrieve(shard: Any, body: Any) -> Any:
    points = shard.retrieve(body["ids"], with_payload=True, with_vector=False)
    return [_record(one) for one in points]


def _scroll(shard: Any, body: Any) -> Any:
    request = edge.ScrollRequest(
        body.get("offset"), body["limit"], _filter(body.get("filter")), body["with_payload"]
    )
    points, offset = shard.scroll(request)
    return {"points": [_record(one) for one in points], "next_page_offset": offset}


def _count(shard: Any, body: Any) -> Any:
    return {"count": shard.count(edge.CountRequest(True, _filter(body.get("filter"))))}  # noqa: FBT003 - exact


def _query(shard: Any, body: Any) -> Any:
    results = []
    for one in body["searches"]:
        query = one.get("query")
        request = edge.QueryRequest(
            one["limit"],
            query=None if query is None else edge.Query.Nearest(query["nearest"], one["using"]),
            with_payload=one.get("with_payload", False),
            filter=_filter(one.get("filter")),
            params=edge.SearchParams(hnsw_ef=(one.get("params") or {}).get("hnsw_ef")),
        )
        points = [
            {**_record(point), "version": point.version, "score": point.score}
            for point in shard.query(request)
        ]
        results.append({"points": points})
    return results


def _delete(shard: Any, body: Any) -> Any:
    if "points" in body:
        shard.update(edge.UpdateOperation.delete_points(body["points"]))
    else:
        shard.update(edge.UpdateOperation.delete_points_by_filter(_filter(body["filter"])))
    return _COMPLETED


_COMPLETED = {"operation_id": 0, "status": "completed"}

_ROUTES = {
    ("PUT", "index"): _index,
    ("PUT", "points"): _upsert,
    ("POST", "points"): _retrieve,
    ("POST", "points/scroll"): _scroll,
    ("POST", "points/count"): _count,
    ("POST", "points/query/batch"): _query,
    ("POST", "points/delete"): _delete,
}


def _record(point: Any) -> dict[str, Any]:
    id_ = point.id if isinstance(point.id, int) else str(point.id)
    return {"id": id_, "payload": point.payload}


def _filter(given: Any) -> Any:
    if given is None:
        return None
    parts = {key: [_condition(one) for one in conditions] for key, conditions in given.items()}
    return edge.Filter(**parts)


def _condition(given: Any) -> Any:
    if "has_id" in given:
        return edge.HasIdCondition(set(given["has_id"]))
    if "is_empty" in given:
        return edge.IsEmptyCondition(given["is_empty"]["key"])
    match = given["match"]
    test = edge.MatchAny(match["any"]) if "any" in match else edge.MatchValue(match["value"])
    return edge.FieldCondition(given["key"], test)


class _Handler(BaseHTTPRequestHandler):
    server: QdrantServer
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # one packet per response
    disable_nagle_algorithm = True

    def _handle(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else None
        path = urlsplit(self.path).path
        with self.server.lock:
            status, answer = self._answer(path, body)
        data = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _answer(self, path: str, body: Any) -> tuple[int, Any]:
        server = self.server
        server.requests.append(f"{self.command} {path}")
        if server.fail_after is not None:
            server.fail_after -= 1
            if server.fail_after < 0:
                return 503, {"status": {"error": "Service is shutting down"}}
        key = self.headers.get("api-key")
        if server.needs_key and key != API_KEY:
            return 401, {"status": {"error": f"Invalid API key {key}"}}
        _, name, *rest = path.strip("/").split("/")
        try:
            result = server.answer(self.command, unquote(name), "/".join(rest), body)
        except LookupError as error:
            return 404, {"status": {"error": str(error)}}
        except Exception as error:  # noqa: BLE001 - the engine rejects the request
            return 400, {"status": {"error": str(error)}}
        return 200, {"result": result, "status": "ok", "time": 0.0}

    do_GET = do_PUT = do_POST = do_DELETE = _handle  # noqa: N815 - names of the base class

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


@contextmanager
def running_qdrant() -> Iterator[QdrantServer]:
    """Start a server, and stop it at the end."""
    folder = Path(tempfile.mkdtemp(prefix="e2g-qdrant-"))
    try:
        with QdrantServer(folder) as server:
            thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
            thread.start()
            try:
                yield server
            finally:
                server.shutdown()
                thread.join()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
