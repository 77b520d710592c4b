"""Read Universal NER for Chinese as tagged characters, and exchange names at random."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

LABELS = ("PER", "ORG", "LOC")
TAGS = ("O", *(f"{place}-{label}" for label in LABELS for place in "BIES"))
"""Begin, inside and end of a name, and a name of a single character."""

KEPT = 0.5
"""Share of the names that stay in a sentence whose names are exchanged."""


class Name(NamedTuple):
    """A name and its span in characters."""

    start: int
    end: int
    label: str


class Sentence(NamedTuple):
    """A sentence with its names."""

    text: str
    names: list[Name]


def read(path: Path) -> list[Sentence]:
    """Return the sentences of a file. Spaces separate words in Latin letters."""
    sentences = []
    for line in path.read_text(encoding="utf8").splitlines():
        record = json.loads(line)
        text, inside = "", ""
        names: list[Name] = []
        for word, tag in zip(record["tokens"], record["tags"], strict=True):
            is_latin = text[-1:].isalnum() and word[0].isalnum() and (text[-1:] + word[0]).isascii()
            text += " " if is_latin else ""
            start, label = len(text), tag[2:]
            text += word
            if label and tag[0] == "I" and label == inside:
                names[-1] = names[-1]._replace(end=len(text))
            elif label:
                names.append(Name(start, len(text), label))
            inside = label
        sentences.append(Sentence(text, [name for name in names if name.label in LABELS]))
    return [sentence for sentence in sentences if sentence.text]


def tags_of(sentence: Sentence) -> list[int]:
    """Return the position in TAGS of the tag of each character."""
    tags = ["O"] * len(sentence.text)
    for start, end, label in sentence.names:
        if end - start == 1:
            tags[start] = f"S-{label}"
            continue
        tags[start:end] = [f"I-{label}"] * (end - start)
        tags[start], tags[end - 1] = f"B-{label}", f"E-{label}"
    return [TAGS.index(tag) for tag in tags]


def exchange(
    sentence: Sentence, pool: dict[str, list[str]], rng: random.Random, share: float
) -> Sentence:
    """Replace names by others of their type, in the given share of sentences."""
    if not sentence.names or rng.random() > share:
        return sentence
    text, at = "", 0
    names = []
    for start, end, label in sentence.names:
        text += sentence.text[at:start]
        name = sentence.text[start:end] if rng.random() < KEPT else rng.choice(pool[label])
        names.append(Name(len(text), len(text) + len(name), label))
        text += name
        at = end
    return Sentence(text + sentence.text[at:], names)


def f1(gold: Sequence[Sentence], found: Sequence[list[Name]]) -> dict[str, float]:
    """Return the F1 by exact spans, of all names and of each type."""
    scores = {}
    for label in ("all", *LABELS):
        pairs = [
            [{name for name in names if label in {"all", name.label}} for names in both]
            for both in zip((sentence.names for sentence in gold), found, strict=True)
        ]
        true = sum(len(a & b) for a, b in pairs)
        total = sum(len(a) + len(b) for a, b in pairs)
        scores[label] = round(2 * true / max(1, total), 4)
    return scores
