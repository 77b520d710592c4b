"""The types of names: those of labels of any pipeline, and the user's own.

Pipelines have their own labels for the same types, such as "GPE", "LOC" and "placeName" for places.
A label that is not known here is a type of its own, as written.
"""

from __future__ import annotations

from types import MappingProxyType

from e2graphrag_integrations.types import NOUN

PERSON, PLACE, ORGANIZATION = "person", "place", "organization"
WORK, PRODUCT = "work", "product"

OTHER = "other"
"""Type of names of another or an unknown type."""

COMMON_NOUN = "noun"
"""Type of entities that are common nouns."""

ENTITY_TYPES = (PERSON, PLACE, ORGANIZATION, WORK, PRODUCT, OTHER, COMMON_NOUN)
"""The types of entities, apart from the user's own."""

_LABELS = {
    PERSON: "PERSON PER PS PRS PERSNAME PERSONNAME",
    PLACE: "PLACE GPE LOC FAC LC LOCATION FACILITY PLACENAME GEOGNAME GPE_LOC",
    ORGANIZATION: "ORGANIZATION ORG OG ORGNAME GPE_ORG COMPANY",
    WORK: "WORK WORK_OF_ART WRK",
    PRODUCT: "PRODUCT PROD OBJ",
    OTHER: "OTHER NAME MISC EVENT EVT EVN LAW LANGUAGE NORP NAT_REL_POL DRV ENT",
}
_TYPES = MappingProxyType(
    {label: type_ for type_, labels in _LABELS.items() for label in labels.split()}
)


def type_of_label(label: str) -> str:
    """Return the type of the mentions with a label; empty for common nouns.

    >>> type_of_label("GPE"), type_of_label("Drug"), type_of_label("NOUN")
    ('place', 'Drug', '')
    """
    return "" if label == NOUN else _TYPES.get(label.upper(), label or OTHER)
