"""Train the English pipeline that ships with the package.

    python training/train_pipeline.py --data ../shared/data/treebanks \
        --out src/e2graphrag_integrations/models/en_e2g_sm

training/README.md describes the required packages, the data and the experiments.
"""

from __future__ import annotations

import argparse
import json
import logging
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import spacy
from spacy.language import Language
from spacy.training import Example
from spacy.util import fix_random_seed
from spacy.vectors import Vectors

import vectors
from assemble import blank_pipeline, finish, folder_size, write
from corpus import Document, Noise, Word, epoch_examples, read_jsonl
from entities import read_flat, read_litbank
from evaluate import Scores, load_ewt, score_all, score_gold_tokens, score_raw_text
from gazetteer import gazetteer
from learn import Plan, train
from lemmas import learn_tables

LOG = logging.getLogger("train")
MAX_BYTES = 8_000_000
"""Maximum size of the pipeline folder."""

TAGGING = ("morphologizer", "tagger", "senter")


@dataclass(frozen=True)
class Encoder:
    """Size of an encoder; `rows` are the hash table sizes of the token features."""

    rows: dict[str, int]
    width: int = 96
    depth: int = 4
    pieces: int = 2

    def config(self) -> dict[str, object]:
        """Return the configuration of the spaCy model."""
        embed = {
            "@architectures": "spacy.MultiHashEmbed.v2",
            "width": self.width,
            "attrs": list(self.rows),
            "rows": list(self.rows.values()),
            "include_static_vectors": True,
        }
        encode = {
            "@architectures": "spacy.MaxoutWindowEncoder.v2",
            "width": self.width,
            "depth": self.depth,
            "window_size": 1,
            "maxout_pieces": self.pieces,
        }
        return {"@architectures": "spacy.Tok2Vec.v2", "embed": embed, "encode": encode}


@dataclass(frozen=True)
class Settings:
    """Settings of a run; `wikigold`, `wnut` and `litbank` are the fractions drawn per epoch."""

    seed: int
    vectors: vectors.Size
    tag_encoder: Encoder
    tag_plan: Plan
    tag_noise: Noise
    name_encoder: Encoder
    name_plan: Plan
    name_noise: Noise
    wikigold: float
    wnut: float
    litbank: float


FINAL = Settings(
    seed=0,
    vectors=vectors.Size(words=32_000, own=8_000, rows=12_000, tags=16, names=3, meaning=21),
    tag_encoder=Encoder(
        rows={"NORM": 1000, "PREFIX": 200, "SUFFIX": 800, "SHAPE": 300, "SPACY": 20}
    ),
    tag_plan=Plan(epochs=10, dropout=0.15),
    tag_noise=Noise(max_sentences=12),
    name_encoder=Encoder(rows={"NORM": 800, "PREFIX": 200, "SUFFIX": 500, "SHAPE": 300}),
    name_plan=Plan(epochs=8, dropout=0.2),
    name_noise=Noise(max_sentences=8),
    wikigold=1.0,
    wnut=0.5,
    litbank=0.4,
)


def label_counts(
    documents: Iterable[Document], label: Callable[[Word], str]
) -> dict[str, Counter[str]]:
    """Count the labels of each lower-case word."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for document in documents:
        for word in (word for sentence in document.sentences for word in sentence.words):
            if label(word):
                counts[word.form.lower()][label(word)] += 1
    return counts


def make_vectors(
    size: vectors.Size, data: Path, ewt: Sequence[Document], named: Sequence[Document]
) -> Vectors:
    """Distill word vectors for the words of the training sets and other common words."""
    documents = [*ewt, *named]
    texts = [[w.form for s in d.sentences for w in s.words] for d in documents]
    texts += [r["tokens"] for r in read_jsonl(data / "ner_litbank/all_nested.jsonl")]
    lists = gazetteer()
    words = vectors.vocabulary(vectors.count_words(texts), lists, size.words)
    tags = label_counts(ewt, lambda word: word.xpos)
    names = label_counts(documents, lambda word: word.ent.removeprefix("B-").removeprefix("I-"))
    return vectors.build(words, size, tags, names, lists)


def new_tagger(settings: Settings, table: Vectors) -> Language:
    """Return the untrained tagger: an encoder and three components that listen to it."""
    nlp = blank_pipeline()
    nlp.vocab.vectors = table
    encoder = settings.tag_encoder
    nlp.add_pipe("tok2vec", config={"model": encoder.config()})
    listener = {
        "@architectures": "spacy.Tok2VecListener.v1",
        "width": encoder.width,
        "upstream": "tok2vec",
    }
    for name in TAGGING:
        model = {"@architectures": "spacy.Tagger.v2", "tok2vec": listener}
        nlp.add_pipe(name, config={"model": model})
    return nlp


def new_ner(settings: Settings, table: Vectors) -> Language:
    """Return the untrained entity recognizer, with its own encoder."""
    nlp = blank_pipeline()
    nlp.vocab.vectors = table
    model = {
        "@architectures": "spacy.TransitionBasedParser.v2",
        "state_type": "ner",
        "extra_state_tokens": False,
        "hidden_width": 64,
        "maxout_pieces": 2,
        "use_upper": True,
        "tok2vec": settings.name_encoder.config(),
    }
    nlp.add_pipe("ner", config={"model": model})
    return nlp


def sampler(
    nlp: Language,
    rng: random.Random,
    noise: Noise,
    ewt: Sequence[Document],
    extra: Sequence[tuple[Sequence[Document], float]] = (),
) -> Callable[[], list[Example]]:
    """Return a function that draws one epoch: the treebank and a fraction of each extra set."""

    def draw() -> list[Example]:
        documents = list(ewt)
        for more, fraction in extra:
            documents += rng.sample(list(more), round(fraction * len(more)))
        return epoch_examples(nlp.vocab, documents, rng, noise)

    return draw


def train_tagger(
    settings: Settings, table: Vectors, ewt: Sequence[Document], dev: Sequence[Document]
) -> Language:
    """Train the tagger on the treebank."""
    rng = seeded(settings.seed)
    nlp = new_tagger(settings, table)

    def score(nlp: Language) -> Scores:
        scores = {**score_gold_tokens(nlp, dev), **score_raw_text(nlp, dev, blank_lines=True)}
        return {name: scores[name] for name in ("pos_acc", "sents_f_raw")}

    train(nlp, sampler(nlp, rng, settings.tag_noise, ewt), score, settings.tag_plan)
    return nlp


def flat_sets(data: Path) -> tuple[list[Document], list[Document]]:
    """Return WikiGold, and the train and dev sets of WNUT 17."""
    nlp = blank_pipeline()
    wikigold = read_flat(nlp, data / "ner_wikigold/all.jsonl", together=True)
    wnut = [
        document
        for split in ("train", "dev")
        for document in read_flat(nlp, data / f"ner_wnut17/{split}.jsonl", together=False)
    ]
    return wikigold, wnut


def train_ner(
    settings: Settings,
    table: Vectors,
    ewt: Sequence[Document],
    extra: Sequence[tuple[Sequence[Document], float]],
    dev: Sequence[Document],
) -> Language:
    """Train the entity recognizer on the treebank's names and the extra sets."""
    rng = seeded(settings.seed)
    nlp = new_ner(settings, table)

    def score(nlp: Language) -> Scores:
        scores = score_gold_tokens(nlp, dev)
        return {name: value for name, value in scores.items() if name.startswith("ents")}

    train(nlp, sampler(nlp, rng, settings.name_noise, ewt, extra), score, settings.name_plan)
    return nlp


def seeded(seed: int) -> random.Random:
    """Seed all random generators and return one for sampling."""
    fix_random_seed(seed)
    return random.Random(seed)  # noqa: S311 - not for cryptography


def train_all(settings: Settings, data: Path) -> Language:
    """Train tagger and entity recognizer; the tagger also selects the names in LitBank."""
    ewt, dev = load_ewt(data, "train"), load_ewt(data, "dev")
    wikigold, wnut = flat_sets(data)
    table = make_vectors(settings.vectors, data, ewt, [*wikigold, *wnut])
    tagger = train_tagger(settings, table, ewt, dev)
    litbank = read_litbank(tagger, data / "ner_litbank/all_nested.jsonl")
    extra = [
        (wikigold, settings.wikigold),
        (wnut, settings.wnut),
        (litbank, settings.litbank),
    ]
    ner = train_ner(settings, table, ewt, extra, dev)
    return finish(tagger, ner, learn_tables(ewt))


def main() -> None:
    """Train and write the pipeline, load and score it, and write it again with its scores."""
    parser = argparse.ArgumentParser(description="Train the English pipeline.")
    parser.add_argument("--data", type=Path, required=True, help="the treebanks folder")
    parser.add_argument("--out", type=Path, required=True, help="folder of the pipeline")
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    nlp = train_all(FINAL, args.data)
    write(nlp, args.out, {})
    loaded = spacy.load(args.out)
    scores = {split: score_all(loaded, load_ewt(args.data, split)) for split in ("dev", "test")}
    write(nlp, args.out, scores)
    LOG.info("%d bytes\n%s", folder_size(args.out), json.dumps(scores, indent=2))
    if folder_size(args.out) > MAX_BYTES:
        raise SystemExit(f"the pipeline exceeds {MAX_BYTES} bytes")


if __name__ == "__main__":
    main()
