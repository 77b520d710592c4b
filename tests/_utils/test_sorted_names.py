"""Merging sorted names, compared with sets."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from e2graphrag_integrations._utils.sorted_names import merge_names

sorted_names = st.lists(st.text("abé", max_size=3), unique=True, max_size=12).map(sorted)


@given(sorted_names, sorted_names, st.data())
def test_merged_names_are_those_left_and_the_newer_ones(older, newer, data):
    rows = st.sets(st.sampled_from(range(len(older)))) if older else st.just(set())
    removed = data.draw(rows)
    merged = merge_names(older, newer, np.asarray(sorted(removed), dtype=np.int64))
    left = {name for row, name in enumerate(older) if row not in removed}
    expected = sorted(left | {*newer})
    places = {name: row for row, name in enumerate(expected)}
    assert list(merged.names) == expected
    assert merged.newer_rows.tolist() == [places[name] for name in newer]
    assert merged.older_rows.tolist() == [places.get(name, -1) for name in older]
