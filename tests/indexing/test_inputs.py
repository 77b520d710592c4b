import pytest

from e2graphrag_integrations import SourceDocument
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.indexing.inputs import as_documents, as_ids

ONE = SourceDocument("one", "Text.")


def test_a_single_document_or_id_becomes_a_list():
    assert as_documents(ONE) == as_documents(d for d in [ONE]) == [ONE]
    assert as_ids("one") == as_ids(["one", "one"]) == ["one"]


@pytest.mark.parametrize("given", [None, 5, object(), "text", b"x", [None], {"id": 1}, [ONE, 5]])
def test_an_object_that_is_not_a_document_is_rejected(given):
    with pytest.raises(InvalidInputError, match="SourceDocument"):
        as_documents(given)


@pytest.mark.parametrize(
    "given", [None, 5, object(), b"x", [[1]], [object()], [2**70], "\ud800", [ONE], ["one", None]]
)
def test_an_object_that_is_not_an_id_is_rejected(given):
    with pytest.raises(InvalidInputError, match=r"ids? (must|contains)"):
        as_ids(given)


def test_an_error_of_the_callers_generator_propagates():
    def documents():
        yield ONE
        raise TypeError("theirs")

    with pytest.raises(TypeError, match="theirs"):
        as_documents(documents())
