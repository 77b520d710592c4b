"""Read the treebank and entity files and turn them into spaCy training examples."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from spacy.tokens import Doc
from spacy.training import Example
from spacy.vocab import Vocab

MISSING = ""
SPACE = "SPACE"
Record = dict[str, Any]
WRAP_COLUMN = 70
CURLY = {"'": "\N{RIGHT SINGLE QUOTATION MARK}", "`": "\N{LEFT SINGLE QUOTATION MARK}", "--": "—"}
QUOTES = frozenset(['"', "``", "''"])


@dataclass(frozen=True)
class Word:
    """One syntactic word with its annotation (empty strings mean "not annotated")."""

    form: str
    space: bool
    upos: str = MISSING
    xpos: str = MISSING
    lemma: str = MISSING
    ent: str = MISSING


@dataclass(frozen=True)
class Sentence:
    """A sentence; `new_par` marks the first sentence of a paragraph."""

    words: tuple[Word, ...]
    new_par: bool = False

    @property
    def text(self) -> str:
        """The text of the sentence without trailing white space."""
        return "".join(w.form + " " * w.space for w in self.words).rstrip()


@dataclass
class Document:
    """Consecutive sentences of one text."""

    name: str
    sentences: list[Sentence] = field(default_factory=list)


# --------------------------------------------------------------------------- CoNLL-U


def _spaces(text: str, forms: Sequence[str]) -> list[bool]:
    """Return for each form whether white space follows it in `text`."""
    ends: list[int] = []
    at = 0
    for form in forms:
        at = text.index(form, at) + len(form)
        ends.append(at)
    return [text[end : end + 1].isspace() for end in ends]


def _sentence(comments: dict[str, str], rows: Sequence[Sequence[str]]) -> Sentence:
    spaces = _spaces(comments["text"], [row[1] for row in rows])
    words = (
        Word(form=row[1], space=space, upos=row[3], xpos=row[4], lemma=row[2])
        for row, space in zip(rows, spaces, strict=True)
    )
    return Sentence(tuple(words), new_par="newpar" in comments or "newdoc" in comments)


def _blocks(path: Path) -> Iterator[tuple[dict[str, str], list[list[str]]]]:
    comments: dict[str, str] = {}
    rows: list[list[str]] = []
    with path.open(encoding="utf8") as lines:
        for line in map(str.rstrip, lines):
            if line.startswith("#"):
                key, _, value = line[1:].partition("=")
                comments[key.split()[0]] = value.strip()
            elif line:
                rows.append(line.split("\t"))
            elif rows:
                yield comments, [row for row in rows if row[0].isdigit()]
                comments, rows = {}, []


def read_conllu(path: Path) -> list[Document]:
    """Read a CoNLL-U file. Multi-word tokens are split and empty nodes skipped."""
    documents: list[Document] = []
    for comments, rows in _blocks(path):
        if "newdoc" in comments or not documents:
            documents.append(Document(comments.get("newdoc", path.stem)))
        documents[-1].sentences.append(_sentence(comments, rows))
    return documents


# --------------------------------------------------------------------------- building docs


def separators(
    sentences: Sequence[Sentence], rng: random.Random | None = None, noise: float = 0.0
) -> list[str]:
    """Return the white space after each sentence.

    That is a blank line between paragraphs and a space elsewhere. With the probability `noise` it
    is another separator.
    """
    result = []
    for following in [*sentences[1:], None]:
        if following is None:
            result.append("")
        elif rng is not None and rng.random() < noise:
            result.append(rng.choice([" ", "\n", "\n\n"] if following.new_par else ["\n", "  "]))
        else:
            result.append("\n\n" if following.new_par else " ")
    return result


def _pieces(
    sentences: Sequence[Sentence], seps: Sequence[str], wrap: bool
) -> Iterator[tuple[Word, bool]]:
    """Yield words and white-space tokens in order, each with whether it starts a sentence."""
    column = 0
    for sentence, sep in zip(sentences, seps, strict=True):
        last = len(sentence.words) - 1
        for i, word in enumerate(sentence.words):
            space = word.space if i < last else sep.startswith(" ")
            extra = "" if i < last else sep.removeprefix(" ")
            column += len(word.form) + space
            if wrap and space and not extra and column > WRAP_COLUMN:
                space, extra = False, "\n"
            yield replace(word, space=space), i == 0
            if extra:
                column = 0
                inside = word.ent if i < last else "O"
                ent = _continuation(inside, sentence.words[i + 1].ent) if i < last else "O"
                yield Word(extra, space=False, upos=SPACE, xpos="_SP", lemma=extra, ent=ent), False


def _continuation(here: str, following: str) -> str:
    """Return the entity tag of a line break between two words."""
    if MISSING in (here, following):
        return MISSING
    return following if following.startswith("I-") else "O"


def make_doc(
    vocab: Vocab, sentences: Sequence[Sentence], seps: Sequence[str], wrap: bool = False
) -> Doc:
    """Return a reference Doc with all annotations of the sentences."""
    pieces = list(_pieces(sentences, seps, wrap))
    words = [word for word, _ in pieces]
    annotated = any(w.ent for w in words)
    tagged = any(w.upos and w.upos != SPACE for w in words)
    return Doc(
        vocab,
        words=[w.form for w in words],
        spaces=[w.space for w in words],
        pos=[w.upos for w in words] if tagged else None,
        tags=[w.xpos for w in words] if tagged else None,
        lemmas=[w.lemma for w in words] if tagged else None,
        ents=[w.ent for w in words] if annotated else None,
        sent_starts=[start for _, start in pieces],
    )


def make_example(vocab: Vocab, reference: Doc) -> Example:
    """Pair a reference with an unannotated Doc of the same tokens."""
    blank = Doc(
        vocab, words=[t.text for t in reference], spaces=[bool(t.whitespace_) for t in reference]
    )
    return Example(blank, reference)


# --------------------------------------------------------------------------- augmentation


@dataclass(frozen=True)
class Noise:
    """Random changes of the training data, drawn again for each epoch.

    Attributes:
        upper: Fraction of sentences in capitals.
        lower: Fraction of sentences in lower case.
        curly: Fraction of sentences with typographic quotes.
        wrap: Fraction of chunks with line breaks inside sentences.
        separator: Fraction of changed separators between sentences.
        max_sentences: Maximum sentences per chunk.
    """

    upper: float = 0.03
    lower: float = 0.03
    curly: float = 0.15
    wrap: float = 0.3
    separator: float = 0.1
    max_sentences: int = 12


def _curl(forms: Sequence[str]) -> list[str]:
    """Replace typewriter quotes and dashes with typographic ones."""
    result = []
    opened = False
    for form in forms:
        if form in QUOTES:
            opened = not opened
            result.append("“" if opened else "”")
        else:
            result.append(CURLY.get(form, form.replace("'", CURLY["'"])))
    return result


def alter(sentence: Sentence, rng: random.Random, noise: Noise) -> Sentence:
    """Change the case or the quotes of some sentences; annotations stay."""
    forms = [w.form for w in sentence.words]
    draw = rng.random()
    if draw < noise.upper:
        forms = [f.upper() for f in forms]
    elif draw < noise.upper + noise.lower:
        forms = [f.lower() for f in forms]
    if rng.random() < noise.curly:
        forms = _curl(forms)
    if forms == [w.form for w in sentence.words]:
        return sentence
    words = tuple(replace(w, form=f) for w, f in zip(sentence.words, forms, strict=True))
    return replace(sentence, words=words)


def chunks(
    documents: Iterable[Document], rng: random.Random, longest: int
) -> Iterator[list[Sentence]]:
    """Split documents into runs of 1 to `longest` consecutive sentences."""
    for document in documents:
        at = 0
        while at < len(document.sentences):
            size = rng.randint(1, longest)
            yield document.sentences[at : at + size]
            at += size


def epoch_examples(
    vocab: Vocab, documents: Sequence[Document], rng: random.Random, noise: Noise
) -> list[Example]:
    """Return the examples of one shuffled, augmented pass over the documents."""
    examples = []
    for chunk in chunks(documents, rng, noise.max_sentences):
        altered = [alter(s, rng, noise) for s in chunk]
        seps = separators(altered, rng, noise.separator)
        doc = make_doc(vocab, altered, seps, wrap=rng.random() < noise.wrap)
        examples.append(make_example(vocab, doc))
    rng.shuffle(examples)
    return examples


def gold_examples(vocab: Vocab, documents: Sequence[Document], longest: int = 0) -> list[Example]:
    """Return unaltered examples for scoring: documents, or runs of `longest` sentences."""
    examples = []
    for document in documents:
        step = longest or len(document.sentences)
        for at in range(0, len(document.sentences), step):
            part = document.sentences[at : at + step]
            examples.append(make_example(vocab, make_doc(vocab, part, separators(part))))
    return examples


# --------------------------------------------------------------------------- entity files


def read_jsonl(path: Path) -> list[Record]:
    """Read one JSON object per line."""
    with path.open(encoding="utf8") as lines:
        return [json.loads(line) for line in lines]
