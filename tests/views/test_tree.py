"""Views of the summary trees: levels, spans, parts, and what they refuse."""

from __future__ import annotations

import json

import pytest

from e2graphrag_integrations import SourceDocument
from e2graphrag_integrations.errors import (
    InvalidInputError,
    UnknownDocumentError,
    UnknownNodeError,
)
from e2graphrag_integrations.views.json_values import to_json
from e2graphrag_integrations.views.tree import document_tree, node_children
from fakes import STORY


@pytest.fixture
def rag(open_index):
    rag = open_index(group_size=3)
    rag.add([SourceDocument("story", STORY * 3), SourceDocument("short", "Anna sleeps.")])
    return rag


def test_levels_lead_from_the_top_to_all_chunks_in_order(rag):
    text = rag.document("story").text
    nodes = list(document_tree(rag, "story").nodes)
    levels = [nodes[0].level]
    while levels[-1]:
        below = []
        for node in nodes:
            found = node_children(rag, node.node_id)
            assert found.total == len(found.nodes) == node.children
            assert (found.nodes[0].start, found.nodes[-1].end) == (node.start, node.end)
            below += found.nodes
        nodes = below
        levels.append(nodes[0].level)
    assert levels == sorted(range(len(levels)), reverse=True)
    assert len(levels) > 2
    assert [node.text for node in nodes] == [text[node.start : node.end] for node in nodes]
    assert node_children(rag, nodes[0].node_id).nodes == ()
    assert {node.document_id for node in nodes} == {"story"}


def test_parts_join_to_the_whole_list(rag):
    [root, *_] = document_tree(rag, "story").nodes
    whole = node_children(rag, root.node_id)
    parts = [node_children(rag, root.node_id, offset, 2) for offset in range(0, 6, 2)]
    assert tuple(node for part in parts for node in part.nodes) == whole.nodes
    assert {part.total for part in parts} == {whole.total}
    json.dumps(to_json(whole))


def test_document_of_one_chunk_is_its_own_tree(rag):
    [node] = document_tree(rag, "short").nodes
    assert (node.level, node.children, node.text) == (0, 0, "Anna sleeps.")


def test_other_documents_do_not_exist_in_a_scope(rag):
    hidden = document_tree(rag, "story").nodes[0].node_id
    scoped = rag.scoped({"document_id": "short"})
    assert document_tree(scoped, "short") == document_tree(rag, "short")
    with pytest.raises(UnknownDocumentError):
        document_tree(scoped, "story")
    with pytest.raises(UnknownNodeError):
        node_children(scoped, hidden)


@pytest.mark.parametrize(
    ("view", "error", "message"),
    [
        (lambda r: document_tree(r, "nowhere"), UnknownDocumentError, "nowhere"),
        (lambda r: document_tree(r, 3), InvalidInputError, "document id"),
        (lambda r: node_children(r, "nowhere"), UnknownNodeError, "nowhere"),
        (lambda r: document_tree(r, "story", -1), InvalidInputError, "offset=-1"),
        (lambda r: document_tree(r, "story", 0, 201), InvalidInputError, "limit=201"),
    ],
)
def test_invalid_arguments_are_refused(rag, view, error, message):
    with pytest.raises(error, match=message):
        view(rag)
