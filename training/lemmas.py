"""Tables for spaCy's rule lemmatizer: English rules plus exceptions learned from the treebank.

The base tables come from spacy-lookups-data (MIT; derived from WordNet). They are stored in
the pipeline, so only training needs that package.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import cast

import spacy
from spacy.language import Language
from spacy.lookups import Lookups, load_lookups
from spacy.pipeline import Lemmatizer
from spacy.tokens import Doc

from corpus import Document

TABLES = ("lemma_index", "lemma_exc", "lemma_rules")
IDENTITY = ["", ""]
RULES = {
    "noun": [
        ["ss", "ss"],
        ["us", "us"],
        ["is", "is"],
        ["sses", "ss"],
        ["ches", "ch"],
        ["shes", "sh"],
        ["xes", "x"],
        ["ies", "y"],
        ["men", "man"],
        ["s", ""],
        ["ses", "s"],
        ["zes", "z"],
    ],
    "verb": [
        ["ss", "ss"],
        ["ies", "y"],
        ["sses", "ss"],
        ["ches", "ch"],
        ["shes", "sh"],
        ["xes", "x"],
        ["oes", "o"],
        ["s", ""],
        ["es", "e"],
        ["ied", "y"],
        ["ed", ""],
        ["ed", "e"],
        ["ying", "y"],
        ["ing", ""],
        ["ing", "e"],
    ],
    "adj": [["iest", "y"], ["ier", "y"], ["er", ""], ["est", ""], ["er", "e"], ["est", "e"]],
    "adv": [["er", ""], ["est", ""], ["er", "e"], ["est", "e"]],
}
SINGULAR_ENDINGS = ("ss", "us", "is", "ics")
LOWERED = (
    "adp",
    "aux",
    "cconj",
    "det",
    "intj",
    "num",
    "part",
    "pron",
    "punct",
    "sconj",
    "sym",
    "x",
)
Exceptions = dict[str, dict[str, list[str]]]
Index = dict[str, dict[str, int]]


def _lookups(index: Index, exceptions: Exceptions) -> Lookups:
    rules = {pos: [*pairs, IDENTITY] for pos, pairs in RULES.items()}
    rules.update({pos: [IDENTITY] for pos in LOWERED})
    lookups = Lookups()
    for name, table in zip(TABLES, (index, exceptions, rules), strict=True):
        lookups.add_table(name, table)
    return lookups


def add_lemmatizer(nlp: Language, lookups: Lookups) -> None:
    """Append a rule lemmatizer with these tables to a pipeline."""
    component = nlp.add_pipe("lemmatizer", config={"mode": "rule", "overwrite": True})
    cast("Lemmatizer", component).initialize(lookups=lookups)


def _apply(lookups: Lookups, pairs: Sequence[tuple[str, str]]) -> list[str]:
    """Return the lemmas of (form, POS) pairs by the rule lemmatizer."""
    nlp = spacy.blank("en")
    add_lemmatizer(nlp, lookups)
    lemmatizer = nlp.get_pipe("lemmatizer")
    doc = Doc(nlp.vocab, words=[form for form, _ in pairs], pos=[pos for _, pos in pairs])
    return [token.lemma_ for token in lemmatizer(doc)]


def _base_forms(pos: str, words: Iterable[str]) -> dict[str, int]:
    """Return the words that no rule reduces to another of the words ("year", not "years")."""
    known = set(words)
    inflected = {
        word
        for word in known
        for old, new in RULES[pos]
        if pos != "verb"
        and word.endswith(old)
        and not word.endswith(SINGULAR_ENDINGS)
        and word[: len(word) - len(old)] + new in known
    }
    return dict.fromkeys(sorted(known - inflected), 1)


def _sibilant(word: str) -> bool:
    return word.endswith(("s", "x", "z", "ch", "sh"))


def _inflections(word: str, pos: str) -> list[str]:
    """Return the word and its regularly inflected forms."""
    stem = word.removesuffix("e")
    soft = word[:-1] + "i" if word.endswith("y") and word[-2:-1] not in "aeiou" else stem
    plural = soft + "es" if soft.endswith("i") or _sibilant(word) else word + "s"
    forms = {
        "noun": [plural],
        "verb": [plural, soft + "ed", stem + "ing"],
        "adj": [soft + "er", soft + "est"],
        "adv": [soft + "er", soft + "est"],
    }
    return [word, *forms[pos]]


def _prune(index: Index, exceptions: Exceptions) -> Index:
    """Keep only the base forms whose removal would change the lemma of a regular form."""
    small: Index = {pos: {} for pos in index}
    for pos, words in index.items():
        pairs = [(form, pos.upper()) for word in words for form in _inflections(word, pos)]
        expected = _apply(_lookups(index, exceptions), pairs)
        for _ in range(3):
            lemmas = _apply(_lookups(small, exceptions), pairs)
            needed = {a for a, b in zip(expected, lemmas, strict=True) if a != b}
            small[pos] = dict.fromkeys(sorted({*small[pos], *needed} & words.keys()), 1)
    return small


def _counts(documents: Iterable[Document]) -> dict[tuple[str, str], Counter[tuple[str, str]]]:
    """Count the (form, lemma) pairs of every (lower-case form, POS) in the treebank."""
    counts: dict[tuple[str, str], Counter[tuple[str, str]]] = defaultdict(Counter)
    for document in documents:
        for sentence in document.sentences:
            for word in sentence.words:
                if word.lemma and word.lemma != "_":
                    counts[word.form.lower(), word.upos][word.form, word.lemma] += 1
    return counts


def learn_tables(documents: Iterable[Document]) -> Lookups:
    """Return the base tables plus an exception for each form whose usual lemma the rules miss."""
    base = load_lookups(lang="en", tables=["lemma_index", "lemma_exc"])
    words, irregular = base.get_table("lemma_index"), base.get_table("lemma_exc")
    index = {pos: _base_forms(pos, filter(str.isalpha, words[pos])) for pos in RULES}
    exceptions: Exceptions = {
        pos: {form: list(lemmas[:1]) for form, lemmas in irregular[pos].items()} for pos in RULES
    }
    index = _prune(index, exceptions)
    counts = _counts(documents)
    pairs = sorted({(form, pos) for (_, pos), forms in counts.items() for form, _ in forms})
    by_rule = dict(zip(pairs, _apply(_lookups(index, exceptions), pairs), strict=True))
    for (lower, pos), forms in sorted(counts.items()):
        lemmas: Counter[str] = Counter()
        for (_, lemma), count in sorted(forms.items()):
            lemmas[lemma] += count
        best, times = lemmas.most_common(1)[0]
        if times > sum(n for (form, lem), n in forms.items() if by_rule[form, pos] == lem):
            exceptions.setdefault(pos.lower(), {})[lower] = [best]
    return _lookups(index, exceptions)
