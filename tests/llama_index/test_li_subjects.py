"""Subjects from the metadata that LlamaIndex's readers and parsers write."""

from __future__ import annotations

import pytest
from llama_index.core import Document
from llama_index.core.node_parser import MarkdownNodeParser

from e2graphrag_integrations.llama_index.hits import NodeIds

DIARY = Document(id_="diary", text="Weena met the Morlocks in London.")
MARKDOWN = """# Guide

## Weena

Weena is a friend who swims in the river.

### Clothes

Clothes are what she wore white.

## Morlocks

Morlocks are people who eat at night.
"""


def snapshot_of(index):
    return index.rag.read_snapshot(lambda snapshot, _: snapshot)


def subjects_of(index):
    return snapshot_of(index).subjects


def test_header_path_holds_for_the_chunk(index_of):
    nodes = MarkdownNodeParser().get_nodes_from_documents([Document(id_="guide", text=MARKDOWN)])
    [clothes] = [node for node in nodes if "wore white" in node.text]
    assert clothes.metadata["header_path"] == "/Guide/Weena/"
    index = index_of([DIARY])
    index.insert_nodes(nodes)
    subjects, table = subjects_of(index), snapshot_of(index)
    [chunk] = [
        number
        for number, row in enumerate(table.chunk_nodes.tolist())
        if NodeIds.of(table).show(table.nodes.ids[row]) == clothes.node_id
    ]
    names = {subjects.names[row] for row in subjects.sections_of(chunk)}
    assert names == {"guide", "weena", "clothes"}


@pytest.mark.parametrize(
    ("metadata", "source"),
    [
        ({"title": "Weena"}, "title"),
        ({"Title": "Weena"}, "metadata"),
        ({"file_name": "Weena.pdf", "file_path": "/data/Weena.pdf"}, "file"),
    ],
)
def test_common_metadata_keys_give_the_subject(index_of, metadata, source):
    own = Document(id_="a", text="She swam in the river.", metadata=metadata)
    sources = [one.source for one in subjects_of(index_of([own, DIARY])).choice.of_documents]
    assert sorted(sources, key=str) == sorted([None, source], key=str)
