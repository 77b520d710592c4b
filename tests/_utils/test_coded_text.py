"""`CodedText`: a message that keeps its code and values."""

from __future__ import annotations

import copy
import pickle

import pytest

from e2graphrag_integrations._utils.coded_text import CodedText, text_of
from e2graphrag_integrations.errors import FilterError, UnknownEntityError


def pickled(error: Exception) -> Exception:
    """Return a copy, as another process gets it."""
    copied: Exception = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own
    return copied


def test_a_message_is_made_from_its_values():
    text = CodedText("too_many", "{name!r} has {count:,} items", name="a", count=1234)
    assert text == "'a' has 1,234 items"
    assert (text.code, dict(text.values)) == ("too_many", {"name": "a", "count": 1234})
    with pytest.raises(TypeError):
        text.values["name"] = "b"  # type: ignore[index]


@pytest.mark.parametrize("copied", [copy.deepcopy, pickled])
def test_a_copy_of_an_error_keeps_the_code(copied):
    error = copied(FilterError(CodedText("deep", "more than {most} deep", most=50)))
    assert (str(error), error.args[0].code) == ("more than 50 deep", "deep")
    assert dict(error.args[0].values) == {"most": 50}


def test_the_text_of_an_error_has_a_code_if_its_message_has_one():
    text = CodedText("deep", "more than {most} deep", most=50)
    assert text_of(FilterError(text)) is text
    assert text_of(FilterError("plain")) == "plain"
    assert text_of(FilterError()) == ""
    assert text_of(UnknownEntityError("no entity", "see entities()")) == "no entity: see entities()"
