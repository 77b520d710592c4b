"""A vector index in a collection of Qdrant.

A collection contains one point for each vector, one without a vector for each document, and one
that names the owner and the embedder. The place of a document is derived from its content, so two
machines that update the collection at once write equal points.
"""

from __future__ import annotations

import hashlib
import json
import os
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any
from urllib.parse import unquote, urlsplit

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations._utils.failures import redact
from e2graphrag_integrations._utils.validation import check_seconds, short_repr
from e2graphrag_integrations.errors import (
    E2GraphRAGError,
    InvalidInputError,
    MissingDependencyError,
    StoreConnectionError,
    StoreError,
    VectorIndexError,
)
from e2graphrag_integrations.protocols import FloatArray
from e2graphrag_integrations.search.vector_index import (
    AllowedPlaces,
    Hits,
    IndexContents,
    IndexedDocument,
)
from e2graphrag_integrations.vectors.writer import NewDocument, Target, new_token

_M, _EF_CONSTRUCT = 32, 128
"""Size and quality of the HNSW graph; see docs/constants.md."""

_EF_FACTOR = 2
"""Number of candidates of a search, as a multiple of the number of results."""

_MAX_LISTED = 20_000
"""Maximum number of documents in a filter. Beyond it, all documents are searched, and the windows
that do not pass the filter are left out."""

_MAX_FETCHED = 4_000
"""Maximum number of results to ask for under a filter that excludes parts of documents."""

_SHIFT = 20
"""Number of bits for the windows of a document in a place."""

_NUMBERS = 1 << 43
"""Number of distinct first places."""

_VECTOR = "window"
"""Name of the vector in a point. Points of documents have none."""

_PAGE = 1_000
"""Number of points per request."""

_VECTORS_PER_REQUEST = 200

_NAMESPACE = uuid.UUID("7d4a9c1e-0b36-5f0f-8d2b-91c6f3a7e254")
"""Namespace of the ids of the points without a vector."""

_META = str(uuid.uuid5(_NAMESPACE, "meta"))
_ENVIRONMENT = "QDRANT_API_KEY"
_UNAUTHORIZED = (401, 403)
_NOT_FOUND, _TOO_MANY, _SERVER_ERROR = 404, 429, 500


@dataclass(frozen=True)
class QdrantVectors:
    """A collection of a Qdrant server that contains the vectors of an index.

    Args:
        url: URL of the server and name of the collection, such as
            `http://localhost:6333/novels`. Each index needs a collection of its own.
        api_key: Key of the server. None reads the environment variable `QDRANT_API_KEY`. Pickles
            do not contain it.
        timeout: Seconds after which a request fails.

    Raises:
        InvalidInputError: If an argument is invalid.
    """

    url: str
    api_key: str | None = field(default=None, repr=False)
    timeout: float = 10.0

    def __post_init__(self) -> None:
        try:
            parts = urlsplit(self.url) if isinstance(self.url, str) else None
            is_port = parts is None or parts.port is None or parts.port > 0
        except ValueError:  # the port is no number, or brackets are open
            parts, is_port = None, False
        if (
            parts is None
            or not is_port
            or parts.scheme not in ("http", "https")
            or not parts.hostname
            or not parts.path.strip("/")
            or parts.query
        ):
            raise InvalidInputError(
                f"{redact(short_repr(self.url))} is not the URL of a Qdrant collection: pass "
                "http://host:6333/collection"
            )
        if parts.username or parts.password:
            raise InvalidInputError(
                "the URL of a Qdrant collection cannot contain a password: pass api_key, or set "
                f"{_ENVIRONMENT}"
            )
        check_seconds("timeout", self.timeout)
        _ = self.key  # raises if it is invalid

    @property
    def collection(self) -> str:
        """Name of the collection."""
        return unquote(urlsplit(self.url).path.strip("/").rpartition("/")[2])

    @property
    def key(self) -> str | None:
        """The key of the server, if there is one, without white space around it.

        Raises:
            InvalidInputError: If a header cannot contain it.
        """
        key = (self.api_key or os.environ.get(_ENVIRONMENT) or "").strip()
        if not (key.isascii() and key.isprintable()):
            raise InvalidInputError(
                f"the key of Qdrant has characters that no header can contain: check api_key and "
                f"{_ENVIRONMENT}"
            )
        return key or None

    def __reduce__(self) -> tuple[Any, ...]:
        """Leave out the key."""
        return type(self), (self.url, None, self.timeout)

    def connect(self) -> Any:
        """Return a client.

        Raises:
            MissingDependencyError: If qdrant-client is not installed.
        """
        try:
            from qdrant_client import QdrantClient
        except ImportError as error:
            raise MissingDependencyError(
                "Qdrant needs qdrant-client: pip install 'e2graphrag-integrations[qdrant]'"
            ) from error
        parts = urlsplit(self.url)
        default = 443 if parts.scheme == "https" else 6333
        return QdrantClient(
            host=parts.hostname,
            port=parts.port or default,
            https=parts.scheme == "https",
            prefix=parts.path.strip("/").rpartition("/")[0] or None,
            api_key=self.key,
            timeout=max(1, round(self.timeout)),
            check_compatibility=False,
        )


class QdrantIndex:
    """A vector index in a collection of Qdrant.

    Args:
        vectors: The collection.
        owner: Returns the identity of the index; empty if it has none yet.

    Raises:
        MissingDependencyError: If qdrant-client is not installed.
    """

    def __init__(self, vectors: QdrantVectors, owner: Callable[[], str]) -> None:
        self._vectors = vectors
        self._owner = owner
        self._collection = vectors.collection
        self._clients: dict[int, Any] = {}  # by process: connections do not survive a fork
        self._client()

    @property
    def name(self) -> str:
        """Name in traces and messages."""
        return f"Qdrant ({self._vectors.url})"

    def _client(self) -> Any:
        client = self._clients.get(os.getpid())
        if client is None:
            client = self._clients.setdefault(os.getpid(), self._vectors.connect())
        return client

    @contextmanager
    def _requests(self) -> Iterator[Any]:
        """Yield the client; raise its errors as those of this package, without the key."""
        from qdrant_client.common.client_exceptions import QdrantException
        from qdrant_client.http.exceptions import ApiException, UnexpectedResponse

        try:
            yield self._client()
        except UnexpectedResponse as error:
            status = error.status_code or 0
            text = self._shown(_message_of(error))
            if status in _UNAUTHORIZED:
                raise VectorIndexError(
                    f"{self.name} refused the API key ({text}): pass api_key, or set {_ENVIRONMENT}"
                ) from None
            if status == _NOT_FOUND:
                raise _MissingCollectionError(
                    f"{self.name} does not exist ({text}): call update_vectors()"
                ) from None
            if status >= _SERVER_ERROR or status == _TOO_MANY:
                raise StoreConnectionError(f"{self.name} failed: {text}; try again") from None
            raise VectorIndexError(f"{self.name} rejected a request: {text}") from None
        except E2GraphRAGError:
            raise
        except (ValueError, AssertionError):  # a proxy or another server
            raise StoreConnectionError(
                f"{self.name} gave an answer that is not one of Qdrant: check the URL"
            ) from None
        except (ApiException, QdrantException, OSError) as error:
            text = self._shown(str(error))
            raise StoreConnectionError(
                f"{self.name} cannot be reached ({text}): check that the server runs"
            ) from None

    def _shown(self, text: str) -> str:
        key = self._vectors.key
        return redact(text, [key] if key else []).strip()

    # Reading

    def contents(self) -> IndexContents | None:
        """Return the contents; None if there are none.

        Raises:
            VectorIndexError: If the collection does not belong to this index.
        """
        from qdrant_client import models

        try:
            meta = self._meta()
        except _MissingCollectionError:
            return None
        if meta is None:
            with self._requests() as client:
                if not client.count(self._collection, exact=True).count:
                    return None
            meta = self._meta()  # another update may have just begun: it writes this point first
        if meta is None or meta.get("owner") != self._owner():
            raise self._foreign_error()
        is_document = models.FieldCondition(key="kind", match=models.MatchValue(value="document"))
        points = self._scroll(models.Filter(must=[is_document]), with_payload=True)
        try:
            documents = {
                str(payload["document_id"]): IndexedDocument(
                    str(payload["stamp"]),
                    int(payload["first"]),
                    int(payload["windows"]),
                    str(payload["digest"]),
                )
                for payload in (point.payload for point in points)
            }
            dimension = int(meta["dimension"])
            return IndexContents(str(meta["token"]), str(meta["embedder"]), dimension, documents)
        except (KeyError, ValueError, TypeError):
            raise self._foreign_error() from None

    def _foreign_error(self) -> VectorIndexError:
        return VectorIndexError(
            f"{self.name} contains other points than the vectors of this index: choose another "
            "collection, or call update_vectors(replace=True) to delete them"
        )

    def _meta(self) -> dict[str, Any] | None:
        with self._requests() as client:
            points = client.retrieve(self._collection, [_META], with_payload=True)
        return dict(points[0].payload or {}) if points else None

    def _scroll(self, condition: Any, *, with_payload: bool) -> Iterator[Any]:
        offset = None
        while True:
            with self._requests() as client:
                points, offset = client.scroll(
                    self._collection,
                    scroll_filter=condition,
                    limit=_PAGE,
                    offset=offset,
                    with_payload=with_payload,
                )
            yield from points
            if offset is None:
                return

    def token(self) -> str:
        """Return the token; empty if there is none."""
        try:
            meta = self._meta()
        except _MissingCollectionError:
            return ""
        return "" if meta is None or meta.get("owner") != self._owner() else str(meta["token"])

    def search(self, query: FloatArray, count: int, allowed: AllowedPlaces | None) -> Hits:
        """Return about `count` of the nearest vectors."""
        from qdrant_client import models

        condition, fetch = None, count
        if allowed is not None:
            condition = _document_filter(allowed)
            share = allowed.share if condition is None else allowed.share_in_documents
            fetch = max(count, min(int(1.2 * count / max(share, 1e-6)), _MAX_FETCHED))
        requests = [
            models.QueryRequest(
                query=query.tolist(),
                using=_VECTOR,
                filter=condition,
                limit=fetch,
                params=models.SearchParams(hnsw_ef=_EF_FACTOR * fetch),
            ),
            models.QueryRequest(
                filter=models.Filter(must=[models.HasIdCondition(has_id=[_META])]),
                limit=1,
                with_payload=True,
            ),
        ]
        try:
            with self._requests() as client:
                found, meta = client.query_batch_points(self._collection, requests)
        except _MissingCollectionError:
            return Hits(np.empty(0, dtype=np.int64), "")
        places = np.asarray([point.id for point in found.points], dtype=np.int64)
        payload = meta.points[0].payload if meta.points else {}
        return Hits(places, str(payload.get("token", "")))

    # Writing

    def prepare(self, target: Target, *, replace: bool) -> IndexContents:
        """Create the collection if it is missing or does not suit; see `WritableVectorIndex`."""
        contents, is_outdated = None, False
        try:
            contents = self.contents()
        except VectorIndexError:
            if not replace:
                raise
            is_outdated = True
        if contents is not None:
            wanted = target.embedder, target.dimension
            if (contents.embedder, contents.dimension) == wanted:
                return contents
            is_outdated = True
        with self._requests() as client:
            if is_outdated:
                client.delete_collection(self._collection)
            self._create(client, target.dimension)
        self._put_meta(
            {
                "kind": "index",
                "owner": target.owner,
                "embedder": target.embedder,
                "dimension": target.dimension,
                "token": new_token(),
            }
        )
        created = self.contents()
        if created is None:
            raise _MissingCollectionError(f"{self.name} was deleted during the update: try again")
        return created

    def _create(self, client: Any, dimension: int) -> None:
        from qdrant_client import models
        from qdrant_client.http.exceptions import UnexpectedResponse

        try:
            client.create_collection(
                self._collection,
                vectors_config={
                    _VECTOR: models.VectorParams(size=dimension, distance=models.Distance.DOT)
                },
                hnsw_config=models.HnswConfigDiff(m=_M, ef_construct=_EF_CONSTRUCT),
            )
        except UnexpectedResponse:
            if not client.collection_exists(self._collection):  # nobody else created it
                raise
        for key, kind in (("kind", "keyword"), ("document", "integer")):
            client.create_payload_index(self._collection, key, models.PayloadSchemaType(kind))

    def _put_meta(self, payload: Mapping[str, Any]) -> None:
        from qdrant_client import models

        self._upsert([models.PointStruct(id=_META, vector={}, payload=dict(payload))])

    def _upsert(self, points: Sequence[Any]) -> None:
        with self._requests() as client:
            client.upsert(self._collection, points, wait=True)

    def count(self) -> int:
        """Return the number of vectors."""
        with self._requests() as client:
            return int(client.count(self._collection, _has_vector(), exact=True).count)

    def places(self) -> NDArray[np.int64]:
        """Return the places of all vectors."""
        points = self._scroll(_has_vector(), with_payload=False)
        ids = [point.id for point in points if isinstance(point.id, int)]
        return np.asarray(ids, dtype=np.int64)

    def delete_places(self, places: NDArray[np.int64]) -> None:
        """Delete vectors."""
        for start in range(0, len(places), _PAGE):
            self._delete(places[start : start + _PAGE].tolist())

    def put(self, documents: Sequence[NewDocument]) -> None:
        """Write documents, each after its vectors, and delete their old versions."""
        points = list[tuple[int, FloatArray]]()
        entries = list[tuple[NewDocument, IndexedDocument]]()
        for one in documents:
            if one.vectors is not None:
                first = _first_place(one)
                points += [(first + number, vector) for number, vector in enumerate(one.vectors)]
                new = IndexedDocument(one.stamp, first, len(one.vectors), one.digest)
            elif one.old is not None:
                new = IndexedDocument(one.stamp, one.old.first, one.old.windows, one.digest)
            else:
                continue
            entries.append((one, new))
        for start in range(0, len(points), _VECTORS_PER_REQUEST):
            self._put_vectors(points[start : start + _VECTORS_PER_REQUEST])
        self._put_documents(entries)
        outdated = [
            one.old for one, new in entries if one.old is not None and one.old.first != new.first
        ]
        self._delete_vectors(outdated)

    def _put_vectors(self, points: Sequence[tuple[int, FloatArray]]) -> None:
        from qdrant_client import models

        self._upsert(
            [
                models.PointStruct(
                    id=place,
                    vector={_VECTOR: vector.tolist()},
                    payload={"document": place >> _SHIFT},
                )
                for place, vector in points
            ]
        )

    def _put_documents(self, entries: Sequence[tuple[NewDocument, IndexedDocument]]) -> None:
        from qdrant_client import models

        for start in range(0, len(entries), _PAGE):
            self._upsert(
                [
                    models.PointStruct(
                        id=_point_of(one.id),
                        vector={},
                        payload={"kind": "document", "document_id": one.id, **asdict(new)},
                    )
                    for one, new in entries[start : start + _PAGE]
                ]
            )

    def remove(self, documents: Mapping[str, IndexedDocument]) -> None:
        """Delete documents, each before its vectors."""
        ids = [_point_of(id_) for id_ in documents]
        for start in range(0, len(ids), _PAGE):
            self._delete(ids[start : start + _PAGE])
        self._delete_vectors(list(documents.values()))

    def _delete(self, ids: Sequence[Any]) -> None:
        from qdrant_client import models

        with self._requests() as client:
            client.delete(self._collection, models.PointIdsList(points=list(ids)), wait=True)

    def _delete_vectors(self, documents: Sequence[IndexedDocument]) -> None:
        from qdrant_client import models

        for start in range(0, len(documents), _PAGE):
            numbers = [one.first >> _SHIFT for one in documents[start : start + _PAGE]]
            selector = models.FilterSelector(filter=models.Filter(must=[_condition(numbers)]))
            with self._requests() as client:
                client.delete(self._collection, selector, wait=True)

    def finish(self) -> None:
        """Change the token."""
        meta = self._meta()
        if meta is not None:
            self._put_meta({**meta, "token": new_token(meta["token"])})


class _MissingCollectionError(StoreError):
    """Raised if the collection does not exist; the next update creates it."""


def _message_of(error: Any) -> str:
    """Return the status and the message in the response of the server."""
    content = (error.content or b"").decode("utf-8", "replace")
    try:
        content = str(json.loads(content)["status"]["error"])
    except (ValueError, KeyError, TypeError):
        content = content[:300]
    return f"{error.status_code} {error.reason_phrase or ''}: {content}".strip(": ")


def _point_of(document_id: str) -> str:
    hashed = hashlib.sha256(document_id.encode("utf-8", "surrogatepass")).hexdigest()
    return str(uuid.uuid5(_NAMESPACE, f"document {hashed}"))


def _first_place(document: NewDocument) -> int:
    """Return the place of a document's first vector, which depends only on the document.

    Raises:
        VectorIndexError: If the document has too many vectors.
    """
    if document.vectors is not None and len(document.vectors) > 1 << _SHIFT:
        raise VectorIndexError(
            f"document {document.id!r} has more than {1 << _SHIFT:,} vectors: split it"
        )
    return (int(document.digest, 16) % _NUMBERS) << _SHIFT


def _has_vector() -> Any:
    """Return a filter for the points of windows."""
    from qdrant_client import models

    is_empty = models.IsEmptyCondition(is_empty=models.PayloadField(key="document"))
    return models.Filter(must_not=[is_empty])


def _condition(numbers: Collection[int]) -> Any:
    from qdrant_client import models

    return models.FieldCondition(key="document", match=models.MatchAny(any=list(numbers)))


def _document_filter(allowed: AllowedPlaces) -> Any | None:
    """Return a filter by the documents that have allowed windows, or None if it is too long."""
    from qdrant_client import models

    numbers = (allowed.firsts >> _SHIFT).tolist()
    others = (allowed.other_firsts >> _SHIFT).tolist()
    if min(len(numbers), len(others)) > _MAX_LISTED:
        return None
    if len(others) < len(numbers):
        return models.Filter(must_not=[_condition(others)]) if others else None
    return models.Filter(must=[_condition(numbers)])
