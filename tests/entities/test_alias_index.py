"""The index of aliases finds the same names as a dictionary of all aliases."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from e2graphrag_integrations._utils.string_array import StringArray
from e2graphrag_integrations.entities.alias_index import AliasIndex, aliases_of
from e2graphrag_integrations.entities.aliases import Aliases
from e2graphrag_integrations.entities.edits import EntityEdit, EntityEdits
from e2graphrag_integrations.entities.name_codes import NameCodes

words = st.sampled_from(
    [
        *("anna", "bert", "of", "the", "&", "r2", "anna-lena", "j.r.", ".", "st.", "dune:", ":"),
        *("ночь", "дозор:", "महात्मा", "गांधी", "نجيب", "王浩然", "诸葛亮", "巴拉克·奥巴马", "a·b"),
        *("王浩", "欧阳娜娜", "黄河", "奥巴马·", "Iİ", "ß", "\ud800", "a", "b"),
    ]
)
names = st.lists(words, min_size=1, max_size=6).map(" ".join)


def dictionary_of(all_names):
    """Return the rows of the names with each alias."""
    table = {}
    for row, name in enumerate(all_names):
        for alias in aliases_of(name):
            table.setdefault(alias, set()).add(row)
    return table


@given(st.lists(names, max_size=30, unique=True))
def test_candidates_contain_all_names_with_an_alias(all_names):
    index = AliasIndex(NameCodes.of(all_names))
    for alias, rows in dictionary_of(all_names).items():
        if "." not in alias:
            found = index.candidates(alias).tolist()
            assert set(found) >= rows
            assert found == sorted(set(found))


def test_candidates_have_equal_lengths_and_letters():
    index = AliasIndex(NameCodes.of(["jane bennet", "eva bennot", "eva benet", "eva town"]))
    assert index.candidates("bennet").tolist() == [0]
    assert index.candidates("").tolist() == []
    assert AliasIndex(NameCodes.of([])).candidates("bennet").tolist() == []


@given(
    st.dictionaries(names, st.tuples(st.integers(0, 4), st.booleans()), max_size=30),
    st.sets(st.sampled_from(["Cleo of Bert", "C. Dozor", "Anna: Dune"])),
)
def test_alias_equals_that_of_a_dictionary(drawn, user_aliases):
    """The dictionary is the former algorithm."""
    entities = {**drawn, "anna bert": (2, True)}
    all_names = list(entities)
    frequency = np.asarray([count for count, _ in entities.values()])
    named = np.asarray([is_name for _, is_name in entities.values()])
    edits = EntityEdits(tuple(EntityEdit("alias", (one, "Anna Bert")) for one in user_aliases))
    table = dictionary_of([name if is_name else "" for name, (_, is_name) in entities.items()])
    for form in edits.alias_forms:
        for alias in aliases_of(form):
            table.setdefault(alias, set()).add(all_names.index("anna bert"))
    aliases = Aliases(all_names, named, frequency, edits)
    for form in [*table, "anna", "a.b.", "王", "zeus"]:
        rows = sorted(table.get(form.replace(".", ""), ()))
        if not rows:
            assert aliases.find(form) is None or aliases.find(form).how == "similar"
            continue
        most = max(int(frequency[row]) for row in rows)
        share = most / max(1, int(frequency[rows].sum()))
        first = next(row for row in rows if frequency[row] == most)
        expected = (all_names[first], "alias", max(0.0001, round(max(share, 1 / len(rows)), 4)))
        assert aliases.find(form) == expected


@given(st.lists(st.text("ab é北\n", max_size=5)))
def test_stored_names_have_the_code_points_of_a_list(names):
    listed, stored = NameCodes.of(names), NameCodes.of(StringArray.of(names))
    assert stored.codes.tolist() == listed.codes.tolist()
    assert stored.starts.tolist() == listed.starts.tolist()
    assert stored.ends.tolist() == listed.ends.tolist()
