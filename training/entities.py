"""Read the entity sets and map them to the labels PERSON, ORG and LOC.

The convention is that of the Universal NER dev set: names only, no titles ("Mr."), no
nationalities; facilities and geopolitical names are LOC.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from spacy.language import Language
from spacy.tokens import Doc

from corpus import MISSING, QUOTES, Document, Record, Sentence, Word, read_jsonl

LABELS = ("LOC", "ORG", "PERSON")
LABEL_MAP = {
    "PER": "PERSON",
    "PERSON": "PERSON",
    "person": "PERSON",
    "ORG": "ORG",
    "corporation": "ORG",
    "group": "ORG",
    "LOC": "LOC",
    "GPE": "LOC",
    "FAC": "LOC",
    "location": "LOC",
}
TITLES = frozenset(
    "mr mr. mrs mrs. miss ms ms. dr dr. sir lady lord captain capt. colonel col. general gen. "
    "major lieutenant prof. professor president prince princess king queen count countess duke "
    "duchess baron rev. reverend uncle aunt cousin master mistress madame monsieur mademoiselle "
    "father brother sister mother judge sergeant doctor squire dame signor signora herr frau "
    "st sen. senator minister".split()
)
LINKS = frozenset(["of", "de", "la", "du", "von", "van", "-", "the", "and", "'s", "’s", "&"])
NO_SPACE_BEFORE = frozenset(
    ". , ; : ? ! ) ] } % ” ’ ... 's 're 've 'll 'd 'm n't 'S ’s ’re ’ve ’ll ’d ’m n’t".split()
)
NO_SPACE_AFTER = frozenset("( [ { “ ‘ $ #".split())
DASHES = frozenset(["--", "—", "-", "/"])

Spans = list[tuple[int, int, str]]


def iob_spans(tags: Sequence[str]) -> Spans:
    """Return the entity spans of an IOB2 sequence as (start, end, label)."""
    spans: Spans = []
    start = -1
    for i, tag in enumerate([*tags, "O"]):
        if start >= 0 and tag != f"I-{tags[start][2:]}":
            spans.append((start, i, tags[start][2:]))
            start = -1
        if tag.startswith("B-"):
            start = i
    return spans


def _tags(length: int, spans: Spans, unknown: Sequence[int] = ()) -> list[str]:
    """Return the IOB2 tags of the spans; positions in `unknown` are left unannotated."""
    tags = ["O"] * length
    for i in unknown:
        tags[i] = MISSING
    for start, end, label in spans:
        tags[start] = f"B-{label}"
        tags[start + 1 : end] = [f"I-{label}"] * (end - start - 1)
    return tags


# --------------------------------------------------------------------------- Universal NER on EWT


def uner_tags(record: Record) -> list[str]:
    """Return the mapped tags of one Universal NER sentence.

    The older training release contains OTH, which is dropped, and a stray "B-O" on the last token
    of some sentences: punctuation there is outside, a word there is left unannotated.
    """
    tokens, tags = record["tokens"], record["tags"]
    spans = [(s, e, LABEL_MAP[label]) for s, e, label in iob_spans(tags) if label in LABEL_MAP]
    stray = [i for i, tag in enumerate(tags) if tag == "B-O" and tokens[i][0].isalnum()]
    return _tags(len(tokens), spans, stray)


def _transfer(record: Record, words: Sequence[Word]) -> list[str]:
    """Transfer the tags of a record's tokens to words of the same characters."""
    owner = [i for i, token in enumerate(record["tokens"]) for _ in token]
    tags = uner_tags(record)
    result = []
    position = 0
    for word in words:
        tag = tags[owner[position]]
        inside = position > 0 and owner[position - 1] == owner[position]
        result.append(f"I-{tag[2:]}" if inside and tag.startswith("B-") else tag)
        position += len(word.form)
    return result


def add_uner(documents: Sequence[Document], path: Path) -> list[Document]:
    """Add entity tags to treebank documents, matching sentences by their characters.

    Sentences whose text differs between the two releases (two of train) stay unannotated.
    """
    known: dict[str, list[Record]] = defaultdict(list)
    for record in read_jsonl(path):
        known["".join(record["tokens"])].append(record)
    return [_annotated(document, known) for document in documents]


def _annotated(document: Document, known: dict[str, list[Record]]) -> Document:
    sentences = []
    for sentence in document.sentences:
        records = known.get("".join(w.form for w in sentence.words), [])
        record = records.pop(0) if len(records) > 1 else next(iter(records), None)
        sentences.append(_with_tags(sentence, record) if record else sentence)
    return Document(document.name, sentences)


def _with_tags(sentence: Sentence, record: Record) -> Sentence:
    pairs = zip(sentence.words, _transfer(record, sentence.words), strict=True)
    return replace(sentence, words=tuple(replace(w, ent=tag) for w, tag in pairs))


# --------------------------------------------------------------------------- detokenizing


def detokenize(tokens: Sequence[str]) -> list[bool]:
    """Guess for each token whether a space follows it."""
    spaces = []
    inside = False
    for i, token in enumerate(tokens):
        following = tokens[i + 1] if i + 1 < len(tokens) else ""
        if token in QUOTES:
            inside = not inside
            space = not inside
        else:
            space = token not in NO_SPACE_AFTER
        closes = following == '"' and inside
        if closes or following in NO_SPACE_BEFORE or {token, following} & DASHES:
            space = False
        spaces.append(space and bool(following))
    return spaces


def to_running_text(nlp: Language, tokens: Sequence[str], tags: Sequence[str]) -> Sentence:
    """Join tokens to running text, tokenize it again and transfer the entity tags."""
    text, starts = "", []
    for token, space in zip(tokens, detokenize(tokens), strict=True):
        starts.append(len(text))
        text += token + " " * space
    doc = nlp.make_doc(text)
    spans: Spans = []
    for start, end, label in iob_spans(tags):
        last = starts[end - 1] + len(tokens[end - 1])
        span = doc.char_span(starts[start], last, label=label, alignment_mode="expand")
        if span is not None and (not spans or spans[-1][1] <= span.start):
            spans.append((span.start, span.end, label))
    unknown_at = {starts[i] for i, tag in enumerate(tags) if tag == MISSING}
    unknown = [t.i for t in doc if t.idx in unknown_at]
    fresh = _tags(len(doc), spans, unknown)
    words = (Word(t.text, bool(t.whitespace_), ent=e) for t, e in zip(doc, fresh, strict=True))
    return Sentence(tuple(words))


# --------------------------------------------------------------------------- other sets


def read_flat(nlp: Language, path: Path, *, together: bool) -> list[Document]:
    """Read WikiGold or WNUT 17; `together` keeps neighboring sentences in one document."""
    sentences = []
    for record in read_jsonl(path):
        spans = iob_spans(record["tags"])
        kept = [(s, e, LABEL_MAP[label]) for s, e, label in spans if label in LABEL_MAP]
        tags = _tags(len(record["tokens"]), kept)
        sentences.append(to_running_text(nlp, record["tokens"], tags))
    size = 8 if together else 1
    groups = [sentences[at : at + size] for at in range(0, len(sentences), size)]
    return [Document(f"{path.parent.name}-{i}", group) for i, group in enumerate(groups)]


def proper_core(doc: Doc, start: int, end: int) -> tuple[int, int] | None:
    """Return the name in a span without article and titles.

    Returns None if the head is a common noun: "her sister", "the London road".
    """
    while start < end and (
        doc[start].lower_ in TITLES or doc[start].pos_ in ("DET", "ADJ", "PUNCT", "PRON", "NUM")
    ):
        start += 1
    stop = start
    while stop < end and (
        doc[stop].pos_ == "PROPN" or (stop > start and doc[stop].lower_ in LINKS)
    ):
        stop += 1
    while stop > start and doc[stop - 1].pos_ != "PROPN":
        stop -= 1
    if stop == start or (stop < end and doc[stop].pos_ in ("NOUN", "PART", "ADJ")):
        return None
    return start, stop


def _litbank_tags(record: Record, doc: Doc) -> list[str]:
    """Return the tags of a LitBank sentence; other proper nouns in spans stay unannotated."""
    names: Spans = []
    unknown: set[int] = set()
    for layer in record["layers"]:
        for start, end, label in iob_spans(layer):
            core = proper_core(doc, start, end) if label in LABEL_MAP else None
            if core:
                names.append((*core, LABEL_MAP[label]))
            else:
                unknown.update(i for i in range(start, end) if doc[i].pos_ == "PROPN")
    chosen: Spans = []
    for name in sorted(set(names), key=lambda n: (n[0] - n[1], n)):
        if all(name[1] <= other[0] or name[0] >= other[1] for other in chosen):
            chosen.append(name)
    return _tags(len(doc), chosen, sorted(unknown))


def read_litbank(tagger: Language, path: Path) -> list[Document]:
    """Read LitBank and keep only names, which `tagger` distinguishes from common nouns."""
    records = read_jsonl(path)
    blanks = (Doc(tagger.vocab, words=r["tokens"], spaces=detokenize(r["tokens"])) for r in records)
    documents: dict[str, Document] = {}
    for record, doc in zip(records, tagger.pipe(blanks), strict=True):
        sentence = to_running_text(tagger, record["tokens"], _litbank_tags(record, doc))
        name = record["doc"]
        documents.setdefault(name, Document(name)).sentences.append(sentence)
    return list(documents.values())
