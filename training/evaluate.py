"""Score a pipeline on the treebank and the entity set, and measure its speed.

python training/evaluate.py --data ../shared/data/treebanks --pipeline DIR --split dev
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import spacy
from spacy.language import Language
from spacy.tokens import Doc

from corpus import SPACE, Document, gold_examples, make_doc, read_conllu, separators
from entities import LABELS, add_uner

EWT_FILES = {
    "train": "en_ewt-ud-train.reconstructed.conllu",
    "dev": "en_ewt-ud-dev.conllu",
    "test": "en_ewt-ud-test.conllu",
}
Scores = dict[str, float]


def load_ewt(data: Path, split: str) -> list[Document]:
    """Return the treebank documents with Universal NER tags."""
    documents = read_conllu(data / "ud_english_ewt" / EWT_FILES[split])
    return add_uner(documents, data / "ner_uner_english_ewt" / f"{split}.jsonl")


def prf(true: int, predicted: int, gold: int) -> tuple[float, float, float]:
    """Return precision, recall and F1."""
    p, r = true / max(predicted, 1), true / max(gold, 1)
    return p, r, 2 * true / max(predicted + gold, 1)


def _entity_counts(predicted: Doc, gold: Doc, counts: dict[str, Counter[str]]) -> None:
    """Add the exact-span counts of one document; unannotated sentences do not count."""
    annotated = {t.i for t in gold if t.ent_iob_}
    entities = {(e.start, e.end, e.label_) for e in predicted.ents if e.start in annotated}
    expected = {(e.start, e.end, e.label_) for e in gold.ents}
    for name, spans in (
        ("true", entities & expected),
        ("predicted", entities),
        ("gold", expected),
    ):
        for _, _, label in spans:
            counts[label][name] += 1


def score_gold_tokens(nlp: Language, documents: Sequence[Document]) -> Scores:
    """Return UPOS, lemma and entity scores on the gold tokens of the treebank."""
    examples = gold_examples(nlp.vocab, documents)
    docs = list(nlp.pipe(example.predicted for example in examples))
    counts = {label: Counter[str]() for label in LABELS}
    words = pos = lemma = 0
    for doc, example in zip(docs, examples, strict=True):
        for token, gold in zip(doc, example.reference, strict=True):
            if gold.pos_ != SPACE:
                words += 1
                pos += token.pos_ == gold.pos_
                lemma += token.lemma_ == gold.lemma_
        _entity_counts(doc, example.reference, counts)
    scores = {"pos_acc": pos / words, "lemma_acc": lemma / words}
    total = sum(counts.values(), Counter[str]())
    triple = prf(total["true"], total["predicted"], total["gold"])
    scores.update(zip(("ents_p", "ents_r", "ents_f"), triple, strict=True))
    for label, c in counts.items():
        scores[f"ents_f_{label}"] = prf(c["true"], c["predicted"], c["gold"])[2]
    return scores


def _sentence_spans(doc: Doc) -> set[tuple[int, int]]:
    """Return the character spans of the sentences without surrounding white space."""
    spans = set()
    for sent in doc.sents:
        tokens = [t for t in sent if not t.is_space]
        if tokens:
            spans.add((tokens[0].idx, tokens[-1].idx + len(tokens[-1])))
    return spans


def _token_spans(doc: Doc) -> dict[tuple[int, int], tuple[str, str]]:
    return {(t.idx, t.idx + len(t)): (t.pos_, t.lemma_) for t in doc if not t.is_space}


def score_raw_text(nlp: Language, documents: Sequence[Document], blank_lines: bool) -> Scores:
    """Return token, sentence, UPOS and lemma F1 on documents as plain text.

    With `blank_lines`, blank lines separate paragraphs, as in the CoNLL shared tasks; otherwise
    single spaces join all sentences.
    """
    names = ("token", "sents", "pos", "lemma")
    counts = {name: Counter[str]() for name in names}
    golds = []
    for document in documents:
        seps = separators(document.sentences)
        if not blank_lines:
            seps = [" " * bool(sep) for sep in seps]
        golds.append(make_doc(nlp.vocab, document.sentences, seps))
    for gold, doc in zip(golds, nlp.pipe(gold.text for gold in golds), strict=True):
        tokens, gold_tokens = _token_spans(doc), _token_spans(gold)
        shared = tokens.keys() & gold_tokens.keys()
        sizes = {"true": len(shared), "predicted": len(tokens), "gold": len(gold_tokens)}
        for name in ("token", "pos", "lemma"):
            counts[name].update(sizes)
        counts["pos"]["true"] -= sum(tokens[s][0] != gold_tokens[s][0] for s in shared)
        counts["lemma"]["true"] -= sum(tokens[s][1] != gold_tokens[s][1] for s in shared)
        sents, gold_sents = _sentence_spans(doc), _sentence_spans(gold)
        counts["sents"].update(
            true=len(sents & gold_sents), predicted=len(sents), gold=len(gold_sents)
        )
    suffix = "raw" if blank_lines else "joined"
    return {
        f"{name}_f_{suffix}": prf(c["true"], c["predicted"], c["gold"])[2]
        for name, c in counts.items()
    }


def paragraphs(text: str) -> list[str]:
    """Return the paragraphs of a plain-text book with their line breaks."""
    return [part for part in re.split(r"\n\s*\n", text) if part.strip()]


def speed(nlp: Language, texts: Iterable[str]) -> float:
    """Return tokens per second of `nlp.pipe` in one process, with tokenization; best of three."""
    texts = list(texts)
    best = 0.0
    for _ in range(3):
        began = time.perf_counter()
        tokens = sum(len(doc) for doc in nlp.pipe(texts))
        best = max(best, tokens / (time.perf_counter() - began))
    return best


def score_all(nlp: Language, documents: Sequence[Document], raw: int | None = None) -> Scores:
    """Return all scores of one treebank split; those of plain text for its first `raw` documents.

    By default, all documents are also scored as plain text.
    """
    scores = score_gold_tokens(nlp, documents)
    for blank_lines in (True, False):
        scores.update(score_raw_text(nlp, documents[:raw], blank_lines))
    return {name: round(value, 4) for name, value in scores.items()}


def main() -> None:
    """Print the scores as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="treebanks folder")
    parser.add_argument("--pipeline", type=Path, required=True)
    parser.add_argument("--split", choices=sorted(EWT_FILES), default="dev")
    parser.add_argument("--book", type=Path, help="plain-text book to time the pipeline on")
    parser.add_argument(
        "--raw-documents", type=int, metavar="N", help="score only the first N as plain text"
    )
    args = parser.parse_args()
    nlp = spacy.load(args.pipeline)
    scores = score_all(nlp, load_ewt(args.data, args.split), args.raw_documents)
    if args.book:
        texts = paragraphs(args.book.read_text(encoding="utf8"))[:1500]
        scores["tokens_per_second"] = round(speed(nlp, texts))
    print(json.dumps(scores, indent=2))


if __name__ == "__main__":
    main()
