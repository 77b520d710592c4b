"""The types of labels."""

import pytest

from e2graphrag_integrations.entities.entity_types import ENTITY_TYPES, type_of_label
from e2graphrag_integrations.types import NOUN


@pytest.mark.parametrize(
    ("label", "type_"),
    [
        ("PERSON", "person"),
        ("PER", "person"),
        ("persName", "person"),
        ("GPE", "place"),
        ("LOC", "place"),
        ("ORG", "organization"),
        ("WORK_OF_ART", "work"),
        ("PRODUCT", "product"),
        ("NAME", "other"),
        ("EVENT", "other"),
        ("", "other"),
        (NOUN, ""),
        ("Drug", "Drug"),
    ],
)
def test_labels_of_any_pipeline_have_a_type(label, type_):
    assert type_of_label(label) == type_


def test_every_type_is_the_label_of_itself():
    names = [type_ for type_ in ENTITY_TYPES if type_ != "noun"]
    assert [type_of_label(type_) for type_ in names] == names
