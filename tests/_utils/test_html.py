from __future__ import annotations

from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from e2graphrag_integrations._utils.html import escaped, passage, table
from e2graphrag_integrations._utils.printable import printable_lines
from strategies import examples


class _Text(HTMLParser):
    def __init__(self, source: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""
        self.feed(source)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)

    def handle_data(self, data):
        self.text += data


@examples(60)
@given(st.text() | st.text("<>&\"'/;=ab \n"), st.data())
def test_passages_keep_their_text_and_add_no_tags(text, data):
    first = data.draw(st.integers(0, len(text)))
    last = data.draw(st.integers(first, len(text)))
    parsed = _Text(passage(text, (first, last)))
    parts = text[:first], text[first:last], text[last:]
    assert parsed.text == "".join(map(printable_lines, parts))
    assert parsed.tags == ["div", "mark"][: 1 + (last > first)]


def test_escaped_text_is_cut_before_it_is_escaped():
    assert escaped("<<<<", 3) == "&lt;&lt;&lt; … (1 character more)"


def test_table_shows_numbers_truth_and_lists():
    parsed = _Text(table(("a",), [(1234,), (True,), (0.123456,), (["x", "y"],), ({"k": 2},)]))
    assert parsed.text == "a1,234yes0.1235x, yk: 2"
