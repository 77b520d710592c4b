"""Trees that never span two scopes: documents of one tree agree on the `scope_keys`."""

from __future__ import annotations

import pytest

from e2graphrag_integrations import SourceDocument
from e2graphrag_integrations.errors import InvalidInputError, SettingsMismatchError
from e2graphrag_integrations.settings import Settings
from fakes import STORY, CountingLLM

A, B = {"tenant": "a"}, {"tenant": "b"}
HALF = len(STORY) // 2


def document(first, second, metadata=None, id_="d", end=None):
    segments = [(0, HALF, first), (HALF, end or len(STORY), second)]
    return SourceDocument(id_, STORY, metadata=metadata or {}, segments=segments)


@pytest.mark.parametrize(
    ("rejected", "parts"),
    [
        (document(A, B), "parts with tenant='a' and with tenant='b'"),
        (document(A, {}), "parts with tenant='a' and with no tenant"),
        (document(A, {"tenant": ["a"]}), "tenant='a' and with tenant=\\['a'\\]"),
        (document(A, A, end=len(STORY) - 20), "tenant='a' and with no tenant"),
        (document({}, B, metadata=A), "tenant='a' and with tenant='b'"),
        (SourceDocument("d", STORY, metadata=B, segments=[(3, 3, A)]), "tenant='a' and with"),
    ],
)
def test_a_document_of_two_scopes_is_rejected_before_anything_is_written(
    open_index, rejected, parts
):
    llm = CountingLLM()
    rag = open_index(summarizer=llm, scope_keys=["tenant"])
    fine = document(A, A, id_="fine")
    for work in (rag.add, rag.estimate):
        with pytest.raises(InvalidInputError, match=f"'d' has .*{parts}"):
            work([fine, rejected])
    assert not llm.calls
    assert not rag.document_ids
    assert not rag.status()
    rag.add(fine)
    rag.add(SourceDocument("d", STORY, metadata=A))
    with pytest.raises(InvalidInputError, match=parts):
        rag.update(rejected)
    assert rag.document("d").metadata == A


def test_documents_without_the_keys_or_with_equal_values_are_indexed(open_index):
    rag = open_index(scope_keys=["tenant", "team"], summarizer=CountingLLM())
    rag.add(
        [
            document({}, {}, id_="none"),
            document({"page": 1}, {"page": 2}, metadata=A | {"team": 1}, id_="pages"),
            document(A | {"team": None}, A | {"team": None}, id_="null"),
        ]
    )
    found = rag.scoped(A).retrieve("Who met Bert?", k=50).nodes
    summarized = [{node.document_id, *node.also_in} for node in found if node.level]
    assert set().union(*summarized) == {"pages", "null"}


def test_the_keys_are_a_setting_of_the_index(tmp_path, open_index):
    path = tmp_path / "i.e2g"
    rag = open_index(path, scope_keys=["tenant"])
    rag.add(SourceDocument("d", STORY, metadata=A))
    rag.close()
    again = open_index(path)
    assert again.settings.scope_keys == ("tenant",)
    assert again.stats().settings["scope_keys"] == '["tenant"]'
    with pytest.raises(InvalidInputError, match="parts with"):
        again.add(document(A, B))
    open_index(path, scope_keys=("tenant", "tenant"))
    for other in ([], ["team"], ["team", "tenant"]):
        with pytest.raises(SettingsMismatchError, match="scope_keys"):
            open_index(path, scope_keys=other)


def test_an_index_without_keys_has_no_entry_and_accepts_none_later(tmp_path, open_index):
    path = tmp_path / "i.e2g"
    rag = open_index(path)
    rag.add(document(A, B))
    assert "scope_keys" not in rag.stats().settings
    rag.close()
    open_index(path, scope_keys=[])
    with pytest.raises(SettingsMismatchError, match="scope_keys"):
        open_index(path, scope_keys=["tenant"])


@pytest.mark.parametrize("keys", ["tenant", [""], [1], {"tenant": 1}, ["document_id"]])
def test_keys_must_be_a_list_of_metadata_keys(keys):
    with pytest.raises(InvalidInputError, match="scope_keys"):
        Settings(scope_keys=keys)
