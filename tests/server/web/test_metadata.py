"""The keys and values of the metadata, for the filter of the page."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest

from e2graphrag_integrations import SourceDocument
from e2graphrag_integrations.server.web import Client, WebOptions
from e2graphrag_integrations.snapshot.metadata import MetadataRecords
from e2graphrag_integrations.types import Segment
from e2graphrag_integrations.views.metadata import MAX_KEYS, MAX_LENGTH, metadata_view

TENANT = "tenant-0123456789abcdef"


def document(id_, **metadata):
    return SourceDocument(id_, f"Anna met Bert in place {id_}.", metadata=metadata)


@pytest.fixture
def client(open_index, serve):
    rag = open_index()
    pages = [Segment(0, 9, {"page": 1}), Segment(9, 24, {"page": 2})]
    rag.add(
        [
            document("a", author="Carol", year=1895, day="2024-05-03", tags=["x", "y"], tenant="a"),
            document("b", author="Carol", year=1901.5, day="2024-06-01T10:00", tags="x"),
            document("c", author="Dora", read=True, odd=1, nested={"k": 1}, note="n" * 300),
            document("d", odd="one", day="2023-01-01"),
            SourceDocument("e", "Anna met Bert in Rome today.", segments=pages),
        ]
    )
    return serve(rag, WebOptions([Client("tenant", TENANT, {"tenant": "a"})]))


def listed(client, path="/metadata", **parameters):
    headers = {"Authorization": f"Bearer {TENANT}"}
    return client.get(path, params=parameters, headers=headers)


def test_keys_have_a_kind_a_range_and_values_by_number_of_documents(open_index, serve, client):
    rag = client.app.state.service.rag
    keys = {one["name"]: one for one in serve(rag).get("/metadata").json()["keys"]}
    assert list(keys) == sorted(keys)
    assert {name: one["kind"] for name, one in keys.items()} == {
        "author": "text",
        "day": "date",
        "note": "text",
        "odd": "mixed",
        "page": "number",
        "read": "boolean",
        "tags": "text",
        "tenant": "text",
        "year": "number",
    }
    author = keys["author"]
    assert author["values"] == [
        {"value": "Carol", "documents": 2},
        {"value": "Dora", "documents": 1},
    ]
    assert (author["documents"], author["distinct"], author["least"]) == (3, 2, None)
    assert (keys["day"]["least"], keys["day"]["greatest"]) == ("2023-01-01", "2024-06-01T10:00")
    assert (keys["year"]["least"], keys["year"]["greatest"]) == (1895, 1901.5)
    assert keys["tags"]["is_list"]
    assert keys["tags"]["values"][0] == {"value": "x", "documents": 2}
    assert keys["page"]["documents"] == 1  # two pages of one document
    assert (keys["note"]["distinct"], keys["note"]["values"]) == (1, [])  # too long to choose
    assert MAX_LENGTH < 300


def test_a_scope_sees_only_its_own_keys_and_values(client):
    view = listed(client).json()
    assert view["total"] == len(view["keys"]) == 5
    assert [one["name"] for one in view["keys"]] == ["author", "day", "tags", "tenant", "year"]
    assert view["keys"][0]["values"] == [{"value": "Carol", "documents": 1}]
    assert listed(client, "/metadata/values", key="read").status_code == 404
    assert listed(client, "/metadata", limit=1_000).status_code == 400
    assert client.get("/metadata").status_code == 401


def test_values_of_a_key_are_searched(open_index, serve):
    rag = open_index()
    rag.add([document(str(n), code=f"Code {n}") for n in range(30)])
    client = serve(rag)
    assert len(client.get("/metadata").json()["keys"][0]["values"]) == 20
    found = client.get("/metadata/values", params={"key": "code", "search": "code 2"}).json()
    assert (found["distinct"], len(found["values"])) == (30, 11)


def test_languages_are_a_key_if_there_are_several(open_index, serve):
    rag = open_index()
    rag.add([SourceDocument(code, "Anna met Bert.", language=code) for code in ("en", "es")])
    keys = {one["name"]: one for one in serve(rag).get("/metadata").json()["keys"]}
    assert keys["language"]["values"] == [
        {"value": "en", "documents": 1},
        {"value": "es", "documents": 1},
    ]
    rag.delete("en")
    assert serve(rag).get("/metadata").json()["keys"] == []


def test_many_documents_and_keys_are_bounded_and_quick():
    values = [
        {"document_id": str(n), "author": f"a{n % 50}", "day": "2024-01-01", "tags": ["x", "y"]}
        for n in range(5_000)
    ]
    values.append({"document_id": "wide"} | {f"key {n}": n for n in range(300)})
    records = MetadataRecords(values, *[None] * 3)  # type: ignore[arg-type] # only the values
    started = time.process_time()
    view = metadata_view(SimpleNamespace(records=records))  # type: ignore[arg-type]
    assert time.process_time() - started < 1
    assert (view.total, len(view.keys)) == (303, MAX_KEYS)
    assert {"author", "day", "tags"} <= {one.name for one in view.keys}


def test_documents_are_sorted_by_the_date_in_their_metadata(open_index, serve):
    rag = open_index()
    rag.add(SourceDocument("none", "Anna met Bert."))
    client = serve(rag)
    assert not client.get("/documents").json()["has_dates"]
    rag.add(
        [
            document("late", date="2024-05-03T10:00", last_modified_date="1999-01-01"),
            document("early", last_modified_date="2023-12-31"),
            document("other", date="in May", creation_date=2024),
        ]
    )

    def ids(order):
        page = client.get("/documents", params={"order": order}).json()
        assert page["has_dates"]
        return [(one["id"], one["date"]) for one in page["items"]]

    undated = [("none", None), ("other", None)]
    dated = [("early", "2023-12-31"), ("late", "2024-05-03T10:00")]
    assert ids("date") == dated + undated
    assert ids("-date") == dated[::-1] + undated
