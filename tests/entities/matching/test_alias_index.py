"""The index of aliases finds the same names as a dictionary of all aliases."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from e2graphrag_integrations._utils.strings import StringArray
from e2graphrag_integrations.entities.edits import EntityEdit, EntityEdits
from e2graphrag_integrations.entities.matching import alias_index
from e2graphrag_integrations.entities.matching.alias_index import AliasIndex, aliases_of, parts_of
from e2graphrag_integrations.entities.matching.aliases import Aliases
from e2graphrag_integrations.entities.matching.name_keys import NameCodes, hash_of, key_letters

words = st.sampled_from(
    [
        *("anna", "bert", "of", "the", "&", "r2", "anna-lena", "j.r.", ".", "st.", "dune:", ":"),
        *("ночь", "дозор:", "महात्मा", "गांधी", "نجيب", "王浩然", "诸葛亮", "巴拉克·奥巴马", "a·b"),
        *("王浩", "欧阳娜娜", "黄河", "奥巴马·", "Iİ", "ß", "\ud800", "a", "b"),
    ]
)
names = st.lists(words, min_size=1, max_size=6).map(" ".join)


def dictionary_of(all_names):
    """Return the rows of the names with the letters of each alias."""
    table = {}
    for row, name in enumerate(all_names):
        for alias in aliases_of(name):
            table.setdefault(key_letters(alias), set()).add(row)
    return table


def rows_by_letters(keys, form):
    return {row for _, rows in keys.find(hash_of(key_letters(form))) for row in rows}


@given(st.lists(names, max_size=30, unique=True))
def test_all_names_with_a_form_are_found(all_names):
    index = AliasIndex(NameCodes.of(all_names))
    rules = [
        (index.names, lambda name: [name]),
        (index.aliases, aliases_of),
        (index.parts, parts_of),
        (index.words, lambda name: name.split(" ")),
    ]
    for keys, forms_of in rules:
        for row, name in enumerate(all_names):
            for form in forms_of(name):
                if key_letters(form):
                    assert row in rows_by_letters(keys, form)


def test_names_in_several_blocks_are_found(monkeypatch):
    monkeypatch.setattr(alias_index, "_BLOCK", 2)
    all_names = ["jane bennet", "eva bennot", "ève benet", "eva town", "王浩然"]
    index = AliasIndex(NameCodes.of(StringArray.of(all_names)))
    found = [rows_by_letters(index.names, name) for name in all_names]
    assert found == [{0}, {1}, {2}, {3}, {4}]
    assert rows_by_letters(index.words, "eva") == {1, 3}


def test_names_with_other_letters_are_not_found():
    index = AliasIndex(NameCodes.of(["jane bennet", "eva bennot", "eva benet", "eva town"]))
    assert rows_by_letters(index.aliases, "bennet") == {0}
    assert rows_by_letters(AliasIndex(NameCodes.of([])).aliases, "bennet") == set()


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
            table.setdefault(key_letters(alias), set()).add(all_names.index("anna bert"))
    aliases = Aliases(all_names, named, frequency, edits)
    for form in table:
        rows = np.asarray(sorted(table[form]))
        assert aliases.rows_with_alias(form).tolist() == (rows.tolist() if form else [])
        if not form or len(aliases.rows_of_letters(form)):
            continue
        most = max(int(frequency[row]) for row in rows)
        share = most / max(1, int(frequency[rows].sum()))
        first = next(row for row in rows if frequency[row] == most)
        expected = (all_names[first], "alias", max(0.0001, round(max(share, 1 / len(rows)), 4)))
        assert aliases.find(form)[:3] == expected


@given(st.lists(st.text("ab é北\n", max_size=5)))
def test_stored_names_have_the_code_points_of_a_list(names):
    listed, stored = NameCodes.of(names), NameCodes.of(StringArray.of(names))
    assert stored.codes.tolist() == listed.codes.tolist()
    assert stored.starts.tolist() == listed.starts.tolist()
    assert stored.ends.tolist() == listed.ends.tolist()
