"""Graph exports: complete, valid in each format, equal bytes for equal indexes, and atomic."""

from __future__ import annotations

import csv
import json
import sys
import threading

import networkx as nx
import numpy as np
import pytest

from e2graphrag_integrations import HashingEmbedder, SourceDocument
from e2graphrag_integrations.errors import InvalidInputError, MissingDependencyError, StoreError
from e2graphrag_integrations.portability import graph_files, graph_formats
from e2graphrag_integrations.portability.property_graph import NODE_LABELS, GraphOptions
from fakes import STORY

HOSTILE = "=cmd|' /C calc'!A0, \"Anna\"\r\nmet \\Bert & <Cleo>\x01\x0b\x00 ]]> 文\ufffe."
DOCUMENTS = [
    SourceDocument("story", STORY, "A Map", {"kind": "tale", "year": 1895, "tags": ["a"]}),
    SourceDocument('a "b",\r\n\x01', HOSTILE, '"T"\n', {"year": 1.5, "a b": True, "nan": None}),
    SourceDocument("a 'b',\r\n\x01", HOSTILE, None, {"kind": 7, "huge": 1 << 70}),
    SourceDocument(
        "pages", "Anna sat. Bert sat.", segments=[(0, 9, {"page": 1}), (9, 19, {"page": 2})]
    ),
    SourceDocument("empty", " \n", "Nothing"),
]
CUT = {"chunk_size": 12, "chunk_overlap": 2, "group_size": 3}
FORMATS = graph_formats.FORMATS


@pytest.fixture
def rag(open_index):
    index = open_index(**CUT)
    index.add(DOCUMENTS)
    return index


def contents(path):
    if path.is_file():
        return path.read_bytes()
    return {file.name: file.read_bytes() for file in path.iterdir()}


def read_csv(folder, name):
    with (folder / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def described(rag):
    """Return the nodes by id, and the set of relations."""

    def work(graph):
        nodes = {node.id: node for node in graph.nodes(np.arange(len(graph)))}
        everything = slice(None)
        relations = {r for table in graph.relations for r in table.selected(everything, graph.ids)}
        return nodes, relations

    return rag.read_graph(work, GraphOptions())


def test_graph_contains_the_index(rag):
    nodes, relations = described(rag)
    by_label = {label: [n for n in nodes.values() if n.label == label] for label in NODE_LABELS}
    stats = rag.stats()
    assert len(by_label["Document"]) == stats.documents
    assert len(by_label["Chunk"]) == stats.chunks
    assert len(by_label["Summary"]) == stats.summaries > 0
    entities = {n.properties["name"]: n.properties for n in by_label["Entity"]}
    for info in rag.entities():
        found = entities.pop(info.name)
        assert found == {
            "name": info.name,
            "named": info.named,
            "type": info.type,
            "mentions": info.mentions,
            "chunks": info.chunks,
            "degree": info.degree,
        }
    assert not entities
    ids = {n.properties["community_id"]: n.id for n in by_label["Community"]}
    assert set(ids) == {c.id for c in rag.communities(reports=None)}
    found = {(r.source, r.target) for r in relations if r.label == "IN_COMMUNITY"}
    assert found == {(e, ids[c.id]) for c in rag.communities(reports=None) for e in c.entities}
    texts = {n.properties["node_id"]: n for n in [*by_label["Chunk"], *by_label["Summary"]]}
    stored = rag.nodes(texts)
    parents = {(r.source, r.target) for r in relations if r.label == "PARENT"}
    assert parents == {
        (texts[n.id].id, texts[n.parent_id].id) for n in stored.values() if n.parent_id
    }
    for id_, node in stored.items():
        assert texts[id_].properties["text"] == node.text.replace("\0", "\ufffd")
    weights = [r.value for r in relations if r.label == "CO_OCCURS"]
    assert len(weights) == stats.edges
    assert sum(r.value for r in relations if r.label == "MENTIONS") == stats.mentions
    about = {(r.source, r.target) for r in relations if r.label == "SUBJECT_OF"}
    assert ("map", "Document:story") in about


def test_metadata_that_a_graph_can_represent_is_included(rag):
    nodes, _ = described(rag)
    story = next(n for n in nodes.values() if n.properties.get("document_id") == "story")
    assert {k: v for k, v in story.properties.items() if k.startswith("meta_")} == {
        "meta_kind": "tale",
        "meta_year": 1895,
    }
    hostile = [n for n in nodes.values() if n.label == "Document" and "meta_huge" in n.properties]
    assert hostile[0].properties["meta_huge"] == str(1 << 70)
    pages = [n.properties for n in nodes.values() if n.properties.get("document_id") == "pages"]
    assert {properties["meta_page"] for properties in pages} == {1}  # the first of both pages
    assert not any("meta_pages" in properties for properties in pages)


def test_keys_that_differ_in_special_characters_are_properties_of_their_own(open_index, tmp_path):
    rag = open_index(chunk_size=6, chunk_overlap=0)
    sentence = "Anna met Bert in Oslo. "
    first, second = {"file-name": 1, "file name": 2, "file_name": True}, {"file-name": 1}
    end = len(sentence)
    pages = [(0, end, first), (end, 2 * end, second)]
    rag.add(SourceDocument("a", 2 * sentence, segments=pages))
    nodes, _ = described(rag)
    found = [
        {k: v for k, v in node.properties.items() if k.startswith("meta_")}
        for node in nodes.values()
        if node.label == "Chunk"
    ]
    values = sorted((sorted(map(str, one.values())) for one in found), reverse=True)
    assert values == [["1", "2", "True"], ["1"]]
    assert found[0]["meta_file_name"] is True
    rag.export_graph(tmp_path / "p", format="parquet")
    rag.export_graph(tmp_path / "g.graphml")
    assert len(nx.read_graphml(tmp_path / "g.graphml")) == len(nodes)


def test_csv_has_the_headers_of_neo4j_admin_and_exact_values(rag, tmp_path):
    counts = rag.export_graph(tmp_path / "graph")
    nodes, relations = described(rag)
    rows = [row for label in NODE_LABELS for row in read_csv(tmp_path / "graph", label.lower())]
    assert {row["id:ID"] for row in rows} == set(nodes)
    assert len(rows) == len(nodes) == sum(counts[label] for label in NODE_LABELS)
    for row in read_csv(tmp_path / "graph", "chunk"):
        node = nodes[row["id:ID"]]
        assert row["text:string"] == node.properties["text"]
        assert row["level:long"] == str(node.properties["level"])
        assert row[":LABEL"] == "Chunk"
    by_id = {row["document_id:string"]: row for row in read_csv(tmp_path / "graph", "document")}
    assert by_id["story"]["meta_year:double"] == "1895.0"  # the column also has 1.5
    assert by_id["story"]["meta_a_b:boolean"] == ""
    assert by_id["a 'b',\r\n\x01"]["meta_kind:string"] == "7"
    edges = read_csv(tmp_path / "graph", "co_occurs")
    assert set(edges[0]) == {":START_ID", "weight:double", ":END_ID", ":TYPE"}
    assert {(e[":START_ID"], e[":END_ID"], float(e["weight:double"])) for e in edges} == {
        (r.source, r.target, r.value) for r in relations if r.label == "CO_OCCURS"
    }
    header = (tmp_path / "graph" / "entity.csv").read_text(encoding="utf-8").partition("\n")[0]
    assert header == (
        "id:ID,name:string,named:boolean,type:string,mentions:long,chunks:long,degree:long,:LABEL"
    )
    assert '""' in (tmp_path / "graph" / "chunk.csv").read_text(encoding="utf-8")


def test_graphml_is_valid_xml_that_networkx_reads(rag, tmp_path):
    rag.export_graph(tmp_path / "graph.graphml", "graphml")
    graph = nx.read_graphml(tmp_path / "graph.graphml")
    nodes, relations = described(rag)
    assert set(graph) == set(nodes)
    assert {(a, b, d["label"]) for a, b, d in graph.edges(data=True)} == {
        (r.source, r.target, r.label) for r in relations
    }
    for id_, data in graph.nodes(data=True):
        for name, value in nodes[id_].properties.items():
            if isinstance(value, str):
                expected = "".join("\ufffd" if c in "\x01\x0b\ufffe" else c for c in value)
                assert data[name] == expected
    assert graph.nodes["anna"]["named"] is True
    assert graph.nodes["anna"]["type"] == "person"
    weights = {(a, b): d["weight"] for a, b, d in graph.edges(data=True) if "weight" in d}
    assert weights == {(r.source, r.target): r.value for r in relations if r.label == "CO_OCCURS"}


def test_gexf_and_json_contain_the_same_graph_as_graphml(rag, tmp_path):
    for suffix in ("graphml", "gexf", "json"):
        rag.export_graph(tmp_path / f"graph.{suffix}")  # the suffix decides
    expected = nx.read_graphml(tmp_path / "graph.graphml", force_multigraph=True)
    gexf = nx.MultiDiGraph(nx.read_gexf(tmp_path / "graph.gexf"))
    exported = json.loads((tmp_path / "graph.json").read_bytes())
    exported = nx.node_link_graph(exported, edges="edges")
    nodes, relations = described(rag)
    for graph in (gexf, exported):
        assert set(graph) == set(nodes)
        found = {
            (a, b, d["label"], d.get("weight"), d.get("count")) for a, b, d in graph.edges.data()
        }
        assert found == {
            (r.source, r.target, r.label, r.properties.get("weight"), r.properties.get("count"))
            for r in relations
        }
        assert graph.number_of_edges() == len(relations)
    assert dict(gexf.nodes(data=True)) == dict(expected.nodes(data=True))
    for id_, data in exported.nodes(data=True):  # JSON has the characters that XML forbids
        own = dict(nodes[id_].properties)
        assert {name: data[name] for name in own if name != "meta_kind"} == {
            name: value for name, value in own.items() if name != "meta_kind"
        }


@pytest.mark.parametrize(
    ("name", "format_", "message"),
    [
        ("g.xml", None, r"g.xml has the suffix '\.xml'.*\.graphml, \.gexf, \.json, or a folder"),
        ("g.csv", None, r"suffix '\.csv'.*a folder without a suffix"),
        ("v1.2", None, r"suffix '\.2'"),
        ("g.graphml", "neo4j-csv", r"g.graphml cannot have the format 'neo4j-csv'"),
        ("g.json", "graphml", r"g.json cannot have the format 'graphml'"),
    ],
)
def test_a_suffix_that_is_unknown_or_contradicts_the_format_is_refused(
    rag, tmp_path, name, format_, message
):
    with pytest.raises(InvalidInputError, match=message):
        rag.export_graph(tmp_path / name, format_)
    assert list(tmp_path.iterdir()) == []


def test_a_named_format_allows_any_other_name(rag, tmp_path):
    rag.export_graph(tmp_path / "v1.2", "neo4j-csv")
    rag.export_graph(tmp_path / "graph", "gexf")
    assert (tmp_path / "v1.2" / "chunk.csv").exists()
    assert (tmp_path / "graph").read_bytes().startswith(b"<?xml")
    rag.export_graph(tmp_path / "g.GraphML")
    assert len(nx.read_graphml(tmp_path / "g.GraphML"))


def test_an_export_of_the_index_is_never_named_like_a_file(rag, tmp_path):
    for name in ("g.graphml", "g.json", "index.JSONL", "all.zip"):
        with pytest.raises(InvalidInputError, match=r"an export is a folder.*export_graph"):
            rag.export_to(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_parquet_has_typed_columns(rag, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    rag.export_graph(tmp_path / "graph", "parquet", texts=False)
    nodes, relations = described(rag)
    chunks = parquet.read_table(tmp_path / "graph" / "chunk.parquet")
    assert "text" not in chunks.column_names
    assert str(chunks.schema.field("meta_year").type) == "double"
    rows = {row["id"]: row for row in chunks.to_pylist()}
    assert rows == {
        id_: {
            "id": id_,
            **{
                name: str(node.properties[name])
                if name == "meta_kind" and name in node.properties
                else node.properties.get(name)
                for name in chunks.column_names[1:]
            },
        }
        for id_, node in nodes.items()
        if node.label == "Chunk"
    }
    mentions = parquet.read_table(tmp_path / "graph" / "mentions.parquet").to_pylist()
    assert {(m["source"], m["target"], m["count"]) for m in mentions} == {
        (r.source, r.target, r.value) for r in relations if r.label == "MENTIONS"
    }


def test_a_cypher_engine_loads_the_parquet_files(rag, tmp_path):
    ladybug = pytest.importorskip("ladybug")
    rag.export_graph(tmp_path / "graph", "parquet")
    connection = ladybug.Connection(ladybug.Database(str(tmp_path / "db")))
    folder = tmp_path / "graph"
    for statement in (
        (
            "CREATE NODE TABLE Entity(id STRING PRIMARY KEY, name STRING, named BOOLEAN, "
            "type STRING, mentions INT64, chunks INT64, degree INT64)"
        ),
        f"COPY Entity FROM '{folder}/entity.parquet'",
        "CREATE REL TABLE CO_OCCURS(FROM Entity TO Entity, weight DOUBLE)",
        f"COPY CO_OCCURS FROM '{folder}/co_occurs.parquet'",
    ):
        connection.execute(statement)
    query = "MATCH (:Entity {name: 'anna'})-[r:CO_OCCURS]-(e:Entity) RETURN e.name, r.weight"
    found = dict(list(connection.execute(query)))
    expected = {n.name: n.weight for n in rag.entity("Anna", top=None).neighbors}
    assert found == pytest.approx(expected)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("format_", FORMATS)
def test_equal_indexes_give_equal_bytes(open_index, tmp_path, format_):
    shuffled = [*reversed(DOCUMENTS)]
    paths = []
    for number, documents in enumerate((DOCUMENTS, [*shuffled, SourceDocument("x", "Gus ran.")])):
        rag = open_index(**CUT)
        for document in documents:
            rag.add(document)
        if number:
            rag.delete("x")
        paths.append(tmp_path / str(number))
        rag.export_graph(paths[-1], format_)
    assert contents(paths[0]) == contents(paths[1])


@pytest.mark.parametrize("format_", FORMATS)
def test_an_empty_index_can_be_exported(open_index, tmp_path, format_):
    counts = open_index().export_graph(tmp_path / "graph", format_)
    assert set(counts.values()) == {0}
    assert (tmp_path / "graph").exists()


@pytest.mark.parametrize("format_", FORMATS)
def test_a_full_disk_leaves_nothing_behind(rag, tmp_path, monkeypatch, format_):
    calls = 0

    def full(*_):
        nonlocal calls
        calls += 1
        if calls > 3:
            raise OSError(28, "No space left on device")
        return original(*_)

    method = "start_relations" if format_ == "parquet" else "write_nodes"
    writer = graph_files._WRITERS[format_]
    original = getattr(writer, method)
    monkeypatch.setattr(writer, method, full)
    with pytest.raises(StoreError, match="No space left on device"):
        rag.export_graph(tmp_path / "graph", format_)
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_overwritten(rag, tmp_path):
    (tmp_path / "graph").mkdir()
    (tmp_path / "file").write_text("mine", encoding="utf-8")
    for name, format_ in (("graph", "neo4j-csv"), ("file", "graphml")):
        with pytest.raises(InvalidInputError, match="already exists"):
            rag.export_graph(tmp_path / name, format_)
    assert (tmp_path / "file").read_text(encoding="utf-8") == "mine"
    with pytest.raises(StoreError, match="could not be written"):
        rag.export_graph(tmp_path / "no" / "folder")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"format": "xml"}, "format"),
        ({"min_weight": -1}, "min_weight"),
        ({"min_weight": float("nan")}, "min_weight"),
        ({"min_weight": "1"}, "min_weight"),
    ],
)
def test_invalid_arguments_are_rejected_before_anything_is_written(rag, tmp_path, options, message):
    with pytest.raises(InvalidInputError, match=message):
        rag.export_graph(tmp_path / "graph", **options)
    assert list(tmp_path.iterdir()) == []


def test_missing_pyarrow_names_the_extra(rag, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingDependencyError, match=r"\[parquet\]"):
        rag.export_graph(tmp_path / "graph", "parquet")
    assert list(tmp_path.iterdir()) == []


async def test_options_and_the_async_version(rag, tmp_path):
    full = rag.export_graph(tmp_path / "full")
    small = await rag.aexport_graph(
        tmp_path / "small", texts=False, communities=False, min_weight=0.5
    )
    assert small["Community"] == small["IN_COMMUNITY"] == 0
    assert 0 < small["CO_OCCURS"] < full["CO_OCCURS"]
    assert "text:string" not in read_csv(tmp_path / "small", "chunk")[0]


@pytest.mark.slow
def test_an_export_during_writes_is_of_one_state(open_index, tmp_path):
    rag = open_index(tmp_path / "i.e2g", embedder=HashingEmbedder(16), **CUT)
    rag.add(DOCUMENTS)
    stop = threading.Event()

    def write():
        number = 0
        while not stop.is_set():
            number += 1
            rag.update(SourceDocument("story", f"{STORY} Gus saw {number} ships."))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for number in range(3):
            folder = tmp_path / str(number)
            counts = rag.export_graph(folder)
            ids = {row["id:ID"] for n in NODE_LABELS for row in read_csv(folder, n.lower())}
            ends = {
                row[end]
                for label in ("mentions", "part_of", "parent")
                for row in read_csv(folder, label)
                for end in (":START_ID", ":END_ID")
            }
            assert ends <= ids
            assert counts["PART_OF"] == counts["Chunk"] + counts["Summary"]
    finally:
        stop.set()
        writer.join()
