"""Page numbers in metadata."""

from __future__ import annotations

import pytest

from e2graphrag_integrations.pages import merge_metadata, with_pages_of


@pytest.mark.parametrize(
    ("records", "merged"),
    [
        ([{"page": 2, "a": 1}], {"page": 2, "a": 1}),
        ([{"page": 2, "a": 1}, {"page": 2, "a": 1}], {"page": 2, "a": 1}),
        (
            [{"page": 2, "a": 1}, {"page": 3, "a": 2}, {"page": 2, "a": 1}],
            {"page": 2, "pages": [2, 3]},
        ),
        ([{"a": 1}, {"a": 1, "page": 3}], {"a": 1, "page": 3, "pages": [3]}),
        # A chunk over several pages lists them.
        ([{"page": 2, "pages": [2, 3]}], {"page": 2, "pages": [2, 3]}),
        (
            [{"page": 1}, {"page": 1, "pages": [1, 2]}, {"page": 4}],
            {"page": 1, "pages": [1, 2, 4]},
        ),
        ([{"page": 1, "pages": [9]}, {"page": 2, "pages": [9]}], {"page": 1, "pages": [9]}),
        (
            [{"page": 0, "page_label": "i"}, {"page": 1, "page_label": "ii"}],
            {"page": 0, "page_label": "i", "pages": [0, 1], "page_labels": ["i", "ii"]},
        ),
        ([{"page": 1, "pages": 9}, {"page": 2, "pages": 9}], {"page": 1, "pages": 9}),
        ([{"page": [1]}, {"page": [2]}], {"page": [1], "pages": [[1], [2]]}),
    ],
)
def test_merged_metadata_lists_the_pages_on_which_records_differ(records, merged):
    assert merge_metadata(records) == merged


def test_page_keys_are_replaced_together():
    metadata = {"page": 1, "page_label": "i", "a": 1}
    assert with_pages_of(metadata, {"page": 2, "a": 2}) == {"page": 2, "a": 1}
    several = {"page": 1, "pages": [1, 2], "a": 1}
    assert with_pages_of(several, {"page": 3}) == {"page": 3, "a": 1}
    assert with_pages_of({"page": 3, "a": 1}, several) == several
    assert with_pages_of({"page": 3, "pages": 7}, {"page": 1}) == {"page": 1, "pages": 7}
