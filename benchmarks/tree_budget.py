r"""Measure mixtures of summaries and windows in token budgets, with summaries of three kinds.

From the repository's root, after `make bench-quality` has built the indexes:

    python benchmarks/tree_budget.py --data ../shared/data --out benchmarks/results/tree_budget.json

Compares `HybridStrategy(budget_summaries=...)` with the default under the same token budgets. The
summaries on level 1 of the trees of qmsum are:

* extractive: those of the default summarizer;
* by people: the reference answers to the meeting's other questions, where the summary covers their
  evidence. This is an upper bound: the annotators who wrote them also wrote the summary of the
  whole meeting that the answers are compared with;
* by a model: those in the file `--written`. With `--local`, or with `--base-url` and `--model`,
  missing summaries are requested from an OpenAI-compatible server and appended to the file,
  shortest meetings first. The model summarizes pieces of 500 words, because small models fail on
  long inputs.

As a control, the summaries by people and by the model are also exchanged between meetings: they
then contain only words that summaries of any meeting have in common.

W@n is the share of the content words of the reference answer in the context of n tokens, R@n the
share of the characters of the evidence. Sentences of extractive summaries count as evidence, too.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import statistics
import sys
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from answers_bench.local_model import MODEL, local_model
from e2graphrag_integrations import E2GraphRAG, HybridStrategy, Mention
from e2graphrag_integrations.retrieval.result import RetrievedNode
from e2graphrag_integrations.text.sentences import sentence_spans
from quality_bench.corpora import Corpus, Question, Words, corpora, in_words
from quality_bench.measures import content_words, interval
from runs import this_run, write_result

BUDGETS = (2000, 4000)
DEFAULT = HybridStrategy()
SIZES = {"chunk_size": 1200, "chunk_overlap": 100, "summary_tokens": 300}

PIECE = 500
"""Words that a model reads at once."""

REQUEST = (
    "This is part of the transcript of a meeting:\n\n{piece}\n\nSummarize this part of the meeting "
    "in two or three sentences: who said or proposed what, and what was decided."
)
_HEAD = 200
"""Characters by which a chunk is found in its document."""


T = TypeVar("T")


class NoNames:
    """Extracts nothing: overview questions have no names, and extraction takes long."""

    fingerprint = "benchmark: no names"

    def extract(self, texts: Sequence[str]) -> list[list[list[Mention]]]:
        return [[] for _ in texts]


@dataclass
class People:
    """Summaries by people: the answers to the questions about the summarized part of a meeting."""

    texts: Mapping[str, str]
    answers: Mapping[str, Sequence[tuple[float, str]]]
    fingerprint: str = "benchmark: people"

    def summarize(self, texts: Sequence[str], *, level: int, max_tokens: int) -> str:
        if level > 1:
            return "\n".join(texts)
        document, start, end = place(texts, self.texts)
        parts = [answer for middle, answer in self.answers[document] if start <= middle < end]
        return " ".join(" ".join(parts).split()[:max_tokens]) or "Nothing was summarized."


@dataclass
class Written:
    """Summaries by a model, from a file."""

    summaries: Mapping[str, str]
    fingerprint: str = "benchmark: model"

    def summarize(self, texts: Sequence[str], *, level: int, max_tokens: int) -> str:
        if level > 1:
            return "\n".join(texts)
        return " ".join(self.summaries[key_of(texts)].split()[:max_tokens])


def place(texts: Sequence[str], documents: Mapping[str, str]) -> tuple[str, int, int]:
    """Return the document that contains consecutive texts, their start and their end."""
    for id_, text in documents.items():
        start = text.find(texts[0][:_HEAD])
        if start >= 0:
            return id_, start, text.find(texts[-1][-_HEAD:], start) + _HEAD
    raise LookupError(texts[0][:_HEAD])


def rotated(values: Mapping[str, T]) -> dict[str, T]:
    """Return a mapping in which each key has the value of another key, always the same one."""
    keys = list(values)
    half = len(keys) // 2
    others = [*keys[half:], *keys[:half]]
    return {key: values[other] for key, other in zip(keys, others, strict=True)}


def key_of(texts: Sequence[str]) -> str:
    return hashlib.sha256("\n\n".join(texts).encode()).hexdigest()[:16]


def answers_by_document(folder: Path) -> dict[str, list[tuple[float, str]]]:
    """Return the answers to the specific questions, with the middle of their evidence."""
    answers: dict[str, list[tuple[float, str]]] = {}
    for line in (folder / "questions.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if spans := row.get("gold_spans"):
            middle = statistics.mean((one["start"] + one["end"]) / 2 for one in spans)
            answers.setdefault(str(row["gold_ids"][0]), []).append((middle, str(row["answer"])))
    return {id_: sorted(found) for id_, found in answers.items()}


def build(corpus: Corpus, ids: set[str], summarizer: Any) -> E2GraphRAG:
    """Index some documents with other summaries; one whose summaries are missing is left out."""
    rag = E2GraphRAG.open(
        ":memory:",
        embedder=corpus.embedder,
        extractor=NoNames(),
        summarizer=summarizer,
        token_counter=Words(),
        **{name: in_words(size) for name, size in SIZES.items()},
    )
    rag.add([one for one in corpus.documents() if one.id in ids])
    return rag


def compare(
    rag: E2GraphRAG,
    questions: Sequence[Question],
    strategy: HybridStrategy,
    texts: Mapping[str, str],
) -> dict[str, Any]:
    """Return the measures with the strategy and with the default, and their paired difference."""
    rows = {
        name: [scores(rag, question, one, texts) for question in questions]
        for name, one in (("windows", DEFAULT), ("mixture", strategy))
    }
    result: dict[str, Any] = {"questions": len(questions)}
    mixed = [row["mixed"] for row in rows["mixture"]]
    result["questions with a mixture"] = sum(mixed)
    result["summaries in 2000 tokens"] = round(
        statistics.mean(row["summaries"] for row in rows["mixture"]), 2
    )
    measures = [name for name in rows["windows"][0] if name[:2] in ("W@", "R@")]
    for name in measures:
        pair = [[row[name] for row in rows[one] if name in row] for one in ("windows", "mixture")]
        windows, mixture = pair
        result[name] = {
            "windows": round(statistics.mean(windows), 4),
            "mixture": round(statistics.mean(mixture), 4),
        } | interval(mixture, windows)
    return result


def scores(
    rag: E2GraphRAG, question: Question, strategy: HybridStrategy, texts: Mapping[str, str]
) -> dict[str, float]:
    wanted, measured = content_words(question.answer), {}
    for budget in BUDGETS:
        result = rag.retrieve(
            question.text, strategy=strategy, token_budget=in_words(budget), where=question.where
        )
        if budget == BUDGETS[0]:
            measured["mixed"] = float(result.mixture is not None)
            measured["summaries"] = float(sum(node.level > 0 for node in result.nodes))
        found = content_words(result.context())
        measured[f"W@{budget}"] = len(wanted & found) / max(1, len(wanted))
        if question.spans:
            measured[f"R@{budget}"] = evidence(question, result.nodes, texts)
    return measured


def evidence(question: Question, nodes: Sequence[RetrievedNode], texts: Mapping[str, str]) -> float:
    """Return the share of the characters of the evidence in some nodes."""
    [document] = question.gold
    gold = np.zeros(len(texts[document]), dtype=np.bool_)
    for start, end in question.spans:
        gold[start:end] = True
    total = int(gold.sum())
    for node in nodes:
        if node.document_id == document:
            spans = node.spans if node.level == 0 else quoted(node, texts[document])
            for start, end in spans:
                gold[start:end] = False
    return 1 - int(gold.sum()) / total


def quoted(node: RetrievedNode, text: str) -> list[tuple[int, int]]:
    """Return the spans of a summary's sentences that are sentences of the document."""
    found = []
    for start, end in sentence_spans(node.text):
        sentence = node.text[start:end]
        at = text.find(sentence, node.start, node.end)
        if at >= 0:
            found.append((at, at + len(sentence)))
    return found


def written(path: Path) -> list[dict[str, str]]:
    """Return the summaries in a file, each with its document and the key of its input."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def write_missing(path: Path, groups: Mapping[str, Sequence[Sequence[str]]], ask: Any) -> None:
    """Request the summaries that a file does not contain yet.

    Args:
        path: The file.
        groups: For each document, the texts of each group of chunks.
        ask: Returns the answer to a prompt.
    """
    known = {row["key"] for row in written(path)}
    with path.open("a", encoding="utf-8") as file:
        for id_, texts in ((id_, group) for id_, found in groups.items() for group in found):
            if key_of(texts) not in known:
                summary = summarize_pieces("\n\n".join(texts), ask)
                row = {"document": id_, "key": key_of(texts), "text": summary}
                file.write(json.dumps(row) + "\n")
                file.flush()


def summarize_pieces(text: str, ask: Any) -> str:
    words = text.split()
    size = -(-len(words) // max(1, round(len(words) / PIECE)))
    pieces = (" ".join(words[start : start + size]) for start in range(0, len(words), size))
    return " ".join(ask(REQUEST.format(piece=piece)).strip() for piece in pieces)


def client(base_url: str, model: str) -> Any:
    def ask(prompt: str) -> str:
        body = {
            "model": model,
            "messages": [{"role": "user", "content": prompt}],
            "max_tokens": 70,
            "temperature": 0,
            "repeat_penalty": 1.3,
        }
        request = urllib.request.Request(  # noqa: S310 - the address that the caller gave
            f"{base_url.rstrip('/')}/chat/completions",
            json.dumps(body).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=600) as response:  # noqa: S310
            return str(json.load(response)["choices"][0]["message"]["content"])

    return ask


@dataclass
class Groups:
    """Records the texts of every summary on level 1, and returns an empty summary."""

    texts: list[list[str]] = field(default_factory=list)
    fingerprint: str = "benchmark: groups"

    def summarize(self, texts: Sequence[str], *, level: int, max_tokens: int) -> str:  # noqa: ARG002
        if level == 1:
            self.texts.append(list(texts))
        return "-"


def groups_of(corpus: Corpus, id_: str) -> list[list[str]]:
    recorder = Groups()
    build(corpus, {id_}, recorder).close()
    return recorder.texts


def measure(corpus: Corpus, split: str, options: argparse.Namespace) -> dict[str, Any]:
    """Return the comparison for each kind of summaries."""
    texts = {one.id: one.text for one in corpus.documents()}
    questions = corpus.questions(split)
    kind = "general" if corpus.name == "qmsum" else "Contextual Summarize"
    broad = [one for one in questions if one.kind == kind]
    overview, flat = (
        HybridStrategy(budget_summaries="overview"),
        HybridStrategy(budget_summaries="flat"),
    )
    found: dict[str, Any] = {}
    with corpus.index() as rag:
        if corpus.name != "qmsum":
            found[f"{kind}, extractive"] = compare(rag, broad, flat, texts)
            return found
        found["general, extractive"] = compare(rag, broad, overview, texts)
        specific = [one for one in questions if one.kind == "specific"][:: options.every]
        found["specific, extractive"] = compare(rag, specific, flat, texts)
    ids = {next(iter(one.gold)) for one in broad}
    people = People(texts, answers_by_document(corpus.folder))
    with build(corpus, ids, people) as rag:
        found["general, by people"] = compare(rag, broad, overview, texts)
    others = People(texts, rotated(people.answers))
    with build(corpus, ids, others) as rag:
        found["general, by people about another meeting"] = compare(rag, broad, overview, texts)
    if rows := written(options.written):
        summaries = Written({row["key"]: row["text"] for row in rows})
        everything = corpus.questions("dev") + corpus.questions("report")
        with build(corpus, {row["document"] for row in rows}, summaries) as rag:
            complete = set(rag.document_ids)
            asked = [one for one in everything if one.kind == kind and one.gold <= complete]
            found[f"general, by {options.model}"] = compare(rag, asked, overview, texts)
        another = Written(rotated(summaries.summaries))
        with build(corpus, complete, another) as rag:
            label = f"general, by {options.model} about another meeting"
            found[label] = compare(rag, asked, overview, texts)
    return found


def request_missing(corpus: Corpus, base_url: str, options: argparse.Namespace) -> None:
    """Request the summaries of the shortest meetings of the dev half."""
    general = [one for one in corpus.questions("dev") if one.kind == "general"]
    ids = {next(iter(one.gold)) for one in general}
    shortest = sorted((len(one.text), one.id) for one in corpus.documents() if one.id in ids)
    groups = {id_: groups_of(corpus, id_) for _, id_ in shortest[: options.meetings]}
    write_missing(options.written, groups, client(base_url, options.model))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--split", choices=("dev", "report"), default="report")
    parser.add_argument("--sets", default="qmsum,graphrag_bench_novel")
    parser.add_argument("--every", type=int, default=1, help="use every n-th specific question")
    parser.add_argument(
        "--written",
        type=Path,
        default=Path(__file__).parent / "results" / "tree_budget_summaries.jsonl",
        help="summaries by a model",
    )
    parser.add_argument("--base-url", help="request missing summaries from this server")
    parser.add_argument(
        "--local", type=Path, help="run the model of `make bench-answers` with this interpreter"
    )
    parser.add_argument("--model", default=MODEL)
    parser.add_argument("--meetings", type=int, default=12, help="meetings to request, at most")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    sets = {one.name: one for one in corpora(options.data, options.sets.split(","))}
    if options.local:
        with local_model(options.local, threads=1) as base_url:
            request_missing(sets["qmsum"], base_url, options)
    elif options.base_url:
        request_missing(sets["qmsum"], options.base_url, options)
    found = {name: measure(corpus, options.split, options) for name, corpus in sets.items()}
    sets_before: dict[str, Any] = {}
    if options.out and options.out.exists():  # keep the sets that were not measured now
        sets_before = json.loads(options.out.read_text(encoding="utf-8"))["sets"]
    result = {**this_run(), "split": options.split, "sets": sets_before | found}
    write_result(result, options.out)


if __name__ == "__main__":
    main()
