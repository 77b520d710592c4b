"""Measure the proposals of homonyms on passages whose titles hide which entity they mean.

The passages are those of hotpotqa. Titles lose their parentheses, so that "Manon (opera)" and
"Manon (ballet)" are two documents about "Manon". Pairs of people get an invented common name, in
all passages that mention them. Of other passages, two documents are made, which are about one
entity: its halves, of which the second begins with the first sentence of the passage for a third
of them. A name belongs to the dev or the report half by its hash. The threshold was chosen on the
dev half.

    python benchmarks/homonyms.py --data ../shared/data --out benchmarks/results/homonyms.json
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import re
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from e2graphrag_integrations import E2GraphRAG, SourceDocument
from e2graphrag_integrations.graph.titles import title_form
from e2graphrag_integrations.retrieval.entities.homonyms import (
    MAX_SIMILARITY,
    Homonym,
    HomonymProposal,
)
from e2graphrag_integrations.text.sentences import sentence_spans

FIRST = "Tamsin Orla Bertil Casimir Delphia Evander Ferelith Gaspar Hesper Ilario".split()
LAST = "Orrow Quillfen Brackmoor Vantley Strell Ambrick Dunmarsh Ellisk Fennor Garrowby".split()
SPLITS, TWICE, PEOPLE = 400, 200, 100
MIN_SENTENCES = 3
CACHE = Path(__file__).parent / ".cache"
SEED = 7

COMMAND = (
    "python benchmarks/homonyms.py --data ../shared/data --out benchmarks/results/homonyms.json"
)

THRESHOLDS = (0.1, 0.2, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.9)

_PARENTHESES = re.compile(r"\s*\([^()]*\)$")
_PERSON = re.compile(r"[A-Z][a-z]+ [A-Z][a-z]+")


@dataclass(frozen=True)
class Passage:
    """A document, and the entities that names mean in it, by the name."""

    document: SourceDocument
    identities: Mapping[str, str]


def without_parentheses(title: str) -> str:
    """Return a title without what tells it from others."""
    return _PARENTHESES.sub("", title)


def half_of(name: str) -> str:
    """Return the half to which a name belongs."""
    return ("dev", "report")[hashlib.sha256(name.casefold().encode()).digest()[0] % 2]


def make_set(rows: Sequence[Mapping[str, str]]) -> list[Passage]:
    """Return the documents of the set."""
    chance = random.Random(SEED)  # noqa: S311 - a sample
    titles = defaultdict(list)
    for row in rows:
        titles[without_parentheses(row["title"])].append(row)
    single = [own[0] for own in titles.values() if len(own) == 1]
    chance.shuffle(single)
    people = [row for row in single if _is_person(row)][: 2 * PEOPLE]
    invented = {row["title"]: _invented(at // 2) for at, row in enumerate(people)}
    others = [row for row in single if row["title"] not in invented]
    long = [row for row in others if len(sentence_spans(row["text"])) > MIN_SENTENCES]
    halved = {row["id"] for row in long[:SPLITS]}
    twice = {row["id"] for row in long[SPLITS : SPLITS + TWICE]}
    full_names = re.compile("|".join(rf"\b{re.escape(name)}\b" for name in invented))
    found = []
    for row in rows:
        title, text = without_parentheses(row["title"]), row["text"]
        identities = {title: row["title"]}
        for name in full_names.findall(text):
            identities[invented[name]] = name
        text = full_names.sub(lambda match: invented[match.group()], text)
        if row["title"] in invented:
            title = invented[row["title"]]
            identities[title] = row["title"]
            for old, new in zip(row["title"].split(), title.split(), strict=True):
                text = re.sub(rf"\b{re.escape(old)}\b", new, text)
        parts = [text]
        if row["id"] in halved | twice:
            spans = sentence_spans(text)
            cut = spans[len(spans) // 2].start
            start = f"{text[: spans[0].end]} " if row["id"] in twice else ""
            parts = [text[:cut].rstrip(), start + text[cut:]]
        found += [
            Passage(SourceDocument(f"{row['id']}-{at}", part, title=title), identities)
            for at, part in enumerate(parts)
        ]
    return found


def _is_person(row: Mapping[str, str]) -> bool:
    start = row["text"].startswith(row["title"])
    return start and " (born " in row["text"][:80] and bool(_PERSON.fullmatch(row["title"]))


def _invented(number: int) -> str:
    return f"{FIRST[number % 10]} {LAST[number // 10 % 10]}"


def read_rows(data: Path) -> list[dict[str, str]]:
    """Return the passages of hotpotqa."""
    lines = (data / "hotpotqa" / "corpus.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


@dataclass(frozen=True)
class Measured:
    """How good the proposals of one half are.

    Attributes:
        homonyms: Number of names with several entities that documents are about.
        proposals: Number of proposals.
        right: Number of those that separate several entities and split none.
        placed, well_placed: Number of documents in right proposals that are not about the name, and
            of those that are in the group of their entity.
    """

    homonyms: int
    proposals: int
    right: int
    placed: int
    well_placed: int

    def to_dict(self) -> dict[str, float]:
        """Return the counts, precision and recall."""
        return {
            **asdict(self),
            "precision": round(self.right / max(1, self.proposals), 3),
            "recall": round(self.right / max(1, self.homonyms), 3),
        }


def measure(
    passages: Mapping[str, Passage], proposals: Sequence[HomonymProposal], half: str
) -> Measured:
    """Compare the proposals for the names of a half with the entities that documents mean."""
    entities = defaultdict(set)
    for passage in passages.values():
        title = passage.document.title or ""
        entities[title_form(title)].add(passage.identities[title])
    homonyms = {name for name, own in entities.items() if len(own) > 1 and half_of(name) == half}
    own = [one for one in proposals if half_of(one.name) == half]
    right = placed = well_placed = 0
    for proposal in own:
        groups = [_meanings(one, proposal.name, passages) for one in proposal.entities]
        meant = [{entity for entity, is_about in group if is_about} for group in groups]
        is_right = all(len(one) == 1 for one in meant) and len(set.union(*meant)) == len(meant)
        right += is_right
        for group, entity in zip(groups, meant, strict=True):
            others = [one for one, is_about in group if is_right and one and not is_about]
            placed += len(others)
            well_placed += sum({one} == entity for one in others)
    return Measured(len(homonyms), len(own), right, placed, well_placed)


def _meanings(
    entity: Homonym, name: str, passages: Mapping[str, Passage]
) -> list[tuple[str, bool]]:
    """Return what each document means by a name, if that is known, and whether it is about it."""
    found = []
    for id_ in entity.document_ids:
        passage = passages[id_]
        meanings = {title_form(written): one for written, one in passage.identities.items()}
        is_about = title_form(passage.document.title or "") == name
        found.append((meanings.get(name, ""), is_about))
    return found


def main() -> None:
    """Index the set, unless the index exists, and measure the proposals."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--index", type=Path, default=CACHE / "homonyms.e2g")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    passages = {one.document.id: one for one in make_set(read_rows(arguments.data))}
    arguments.index.parent.mkdir(exist_ok=True)
    with E2GraphRAG.open(arguments.index) as rag:
        rag.add([one.document for one in passages.values()])
        by_threshold = {}
        for threshold in THRESHOLDS:
            start = time.perf_counter()
            proposals = rag.propose_homonyms(max_similarity=threshold)
            seconds = time.perf_counter() - start
            by_threshold[threshold] = {
                half: measure(passages, proposals, half).to_dict() for half in ("dev", "report")
            } | {"seconds": round(seconds, 2)}
            print(threshold, by_threshold[threshold], flush=True)
    result = {
        "command": COMMAND,
        "documents": len(passages),
        "threshold": MAX_SIMILARITY,
        "by_threshold": by_threshold,
    }
    arguments.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
