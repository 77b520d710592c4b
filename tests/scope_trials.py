"""Trials that search everything that a tenant gets for words that only another tenant has.

An index has documents of two tenants, and documents that belong to both in part. Every word with a
secret is a canary: it occurs only in texts, titles, ids, metadata, headings, names, aliases, tags
or summaries of one tenant. Questions contain parts and misspellings of the canaries of the other
tenant; no answer may complete them.
"""

from __future__ import annotations

import io
import json
import logging
import random
import re
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from e2graphrag_integrations import (
    E2GraphRAG,
    HashingEmbedder,
    HybridStrategy,
    IndexSettings,
    Models,
    PaperStrategy,
    ScopedReader,
    SourceDocument,
    TreeTraversalStrategy,
    tagged,
)
from e2graphrag_integrations.errors import E2GraphRAGError
from e2graphrag_integrations.html_report import contents
from e2graphrag_integrations.snapshot.snapshot import Snapshot
from e2graphrag_integrations.views.graph import (
    edge_sentences,
    find_connection,
    list_entities,
    neighborhood,
)
from e2graphrag_integrations.views.tree import document_tree, node_children
from fakes import NameExtractor

A, B = {"tenant": "a"}, {"tenant": "b"}
OF_A = ("Anna met Bert in Oslo. Bert gave Anna a map.", "Cleo saw Anna in Rome.")
OF_B = ("Zoe met Bert in Riga. Bert gave Zoe a map.", "Xenia saw Zoe in Riga.")
_SECRETS = ("Zoe", "Xenia", "Riga", "b-page", "secretkey")

TENANTS = ("a", "b")
SHARED = ("Oslo", "Bert", "Anna", "Rome", "Riga")
_SYLLABLES = ("vor", "lim", "tas", "dru", "gol", "pem", "zik", "hux", "bram", "nyl", "quo", "fev")
_PLACES = ("text", "heading", "title", "id", "key", "value", "alias", "tag", "name")


def secrets_in(shown: object) -> list[str]:
    """Return the words of the second tenant's pages, `OF_B`, that are shown."""
    return [secret for secret in _SECRETS if secret.lower() in repr(shown).lower()]


def new_index(path: str = ":memory:") -> E2GraphRAG:
    """Return an empty index with fast components."""
    return E2GraphRAG.open(
        path,
        embedder=HashingEmbedder(),
        models=Models(extractor=NameExtractor()),
        settings=IndexSettings(chunk_size=16, chunk_overlap=4, group_size=2, split_segments=True),
    )


@dataclass
class Trials:
    """Changes an index at random, and asks it on behalf of two tenants.

    Attributes:
        seed: Seed of all random choices.
        open_index: Opens an empty index.
        asked: Number of trials so far.
        leaks: Descriptions of the leaks that were found.
    """

    seed: int
    open_index: Callable[[], E2GraphRAG] = new_index
    asked: int = 0
    leaks: list[str] = field(default_factory=list)

    def run(self, count: int, per_index: int = 100) -> None:
        """Run trials; every `per_index` of them use one index, which changes meanwhile."""
        while self.asked < count:
            state = _State(random.Random(f"{self.seed} {self.asked}"))  # noqa: S311 - repeatable
            with self.open_index() as rag, _messages() as messages:
                state.fill(rag)
                for _ in range(min(per_index, count - self.asked)):
                    if state.random.random() < 0.15:
                        state.change(rag)
                    self._try(rag, state, messages)
                    self.asked += 1

    def _try(self, rag: E2GraphRAG, state: _State, messages: io.StringIO) -> None:
        tenant = state.random.choice(TENANTS)
        other = TENANTS[tenant == "a"]
        messages.seek(0)
        messages.truncate()
        typed, what, answer = state.ask(rag, tenant)
        shown = f"{answer}\n{messages.getvalue()}".lower()
        for canary in state.canaries[other]:
            if canary in shown and canary not in typed.lower():
                if canary in state.tags and canary in rag.scoped({"tenant": tenant}).tag_counts():
                    continue  # the owner of the index chose this tag, and a chunk has it
                place = shown.index(canary)
                around = shown[max(0, place - 80) : place + 80]
                self.leaks.append(f"{self.seed}/{self.asked}: {what}: {canary}: {around!r}")


class _State:
    """What one index contains."""

    def __init__(self, chosen: random.Random) -> None:
        self.random = chosen
        self.canaries: dict[str, list[str]] = {tenant: [] for tenant in TENANTS}
        self.documents: dict[str, str] = {}  # the owner of each document
        self.nodes: dict[str, list[str]] = {tenant: [] for tenant in TENANTS}
        self.tags: list[str] = []
        self._number = 0

    # Content

    def canary(self, tenant: str, place: str) -> str:
        """Return a new word that only one tenant has."""
        self._number += 1
        middle = "".join(self.random.choice(_SYLLABLES) for _ in range(2))
        word = f"{tenant}x{middle}{place[:2]}{self._number:03d}".translate(
            str.maketrans("0123456789", "aeioubcdfg")
        )
        self.canaries[tenant].append(word)
        return word

    def name(self, tenant: str) -> str:
        return self.canary(tenant, "name").capitalize()

    def sentences(self, tenant: str, count: int) -> list[str]:
        chosen = self.random
        found = []
        for _ in range(count):
            who, where = self.name(tenant), chosen.choice(SHARED)
            found.append(
                chosen.choice(
                    [
                        f"{who} met {where} and {chosen.choice(SHARED)}.",
                        f"{who} is a {self.canary(tenant, 'noun')} of {where}.",
                        f"{chosen.choice(SHARED)} gave {who} a map of {where}.",
                        f"{chosen.choice(SHARED)} saw {who}.",
                    ]
                )
            )
        return found

    def document(self, owner: str, id_: str | None = None) -> SourceDocument:
        """Return a document of a tenant, or of both."""
        if owner == "both":
            return self._mixed(id_ or f"shared{self._number}")
        chosen = self.random
        parts = self.sentences(owner, chosen.randrange(1, 7))
        if chosen.random() < 0.4:
            parts.insert(0, f"# {self.canary(owner, 'heading').capitalize()} Chapter\n\n")
        metadata: dict[str, Any] = {"tenant": owner, "kind": chosen.choice(["memo", "tale"])}
        if chosen.random() < 0.5:
            metadata[self.canary(owner, "key")] = self.canary(owner, "value")
            metadata["source"] = f"{self.canary(owner, 'file')}.txt"
        title = f"{self.name(owner)} Report" if chosen.random() < 0.6 else None
        id_ = id_ or f"{self.canary(owner, 'id')}.md"
        return SourceDocument(id_, " ".join(parts), title, metadata)

    def _mixed(self, id_: str) -> SourceDocument:
        segments: list[tuple[int, int, dict[str, Any]]] = []
        text = ""
        for tenant in self.random.sample(TENANTS * 2, 3):
            part = " ".join(self.sentences(tenant, self.random.randrange(1, 5)))
            own = {"tenant": tenant, "note": self.canary(tenant, "value")}
            segments.append((len(text), len(text) + len(part), own))
            text += part + "\n\n"
        title = f"{self.name('a')} and {self.name('b')}"
        return SourceDocument(id_, text, title, segments=segments)

    def fill(self, rag: E2GraphRAG) -> None:
        owners = ["a", "a", "b", "b", "both"]
        self._add(rag, [self.document(owner) for owner in owners], owners)
        self._edit(rag)
        self._tag(rag)

    def _add(self, rag: E2GraphRAG, documents: list[SourceDocument], owners: list[str]) -> None:
        rag.add(documents, on_duplicate="replace")
        for document, owner in zip(documents, owners, strict=True):
            self.documents[document.id] = owner
        for tenant in TENANTS:
            self.nodes[tenant] = [
                node.node_id for node in rag.retrieve("Oslo", k=50, where={"tenant": tenant}).nodes
            ]

    def change(self, rag: E2GraphRAG) -> None:
        """Add, update or delete a document, or change edits or tags."""
        kind = self.random.random()
        owner = self.random.choice(["a", "b", "both"])
        if kind < 0.35 or len(self.documents) < 4:
            self._add(rag, [self.document(owner)], [owner])
        elif kind < 0.6:
            id_, owner = self.random.choice([*self.documents.items()])
            self._add(rag, [self.document(owner, id_)], [owner])
        elif kind < 0.75:
            rag.delete(self.documents.popitem()[0])
        elif kind < 0.9:
            self._edit(rag)
        else:
            self._tag(rag)

    def _edit(self, rag: E2GraphRAG) -> None:
        """Make aliases of names of one tenant, and of names of both."""
        for tenant in TENANTS:
            names = [one.name for one in rag.entities(where={"tenant": tenant})]
            own = [name for name in names if name in self.canaries[tenant]]
            if not own:
                continue
            name = self.random.choice(own)
            common = self.random.choice(SHARED)
            pairs = [{self.name(tenant): name}, {name: common}, {self.name(tenant): common}]
            try:
                rag.edit_entities(alias=self.random.choice(pairs))
                if self.random.random() < 0.3:
                    rag.edit_entities(separate=[(self.random.choice(own), common)])
            except E2GraphRAGError:
                continue  # it contradicts an older edit

    def _tag(self, rag: E2GraphRAG) -> None:
        self.tags = [self.canary(tenant, "tag") for tenant in TENANTS]
        rag.set_tags(
            [
                {"name": name, "examples": [" ".join(self.sentences(tenant, 1))]}
                for name, tenant in zip(self.tags, TENANTS, strict=True)
            ]
        )

    # Questions

    def hint(self, word: str) -> str:
        """Return a part or a misspelling of a word that does not contain it."""
        kind = self.random.randrange(5)
        middle = len(word) // 2
        if kind == 0:
            return word[: self.random.randrange(3, len(word))]
        if kind == 1:
            return word[self.random.randrange(1, len(word) - 2) :]
        if kind == 2:
            return f"{word[:middle]}{word[middle + 1 :]}"
        if kind == 3:
            return f"{word[:middle]}q{word[middle:]}"
        return f"{word[: middle - 1]}{word[middle]}{word[middle - 1]}{word[middle + 1 :]}"

    def question(self, tenant: str) -> str:
        chosen = self.random
        other = TENANTS[tenant == "a"]
        words = [
            self.hint(chosen.choice(self.canaries[other])).capitalize(),
            chosen.choice(self.canaries[tenant]).capitalize(),
            chosen.choice(SHARED),
            chosen.choice(self.canaries[other]).capitalize()
            if chosen.random() < 0.2
            else chosen.choice(SHARED),
        ]
        chosen.shuffle(words)
        form = chosen.choice(
            [
                "Who met {0}?",
                "What did {0} give to {1}?",
                "How is {0} connected with {1} and {2}?",
                "Give an overview of {0}.",
                "{0}",
                "And what about her map of {0}?",
                "{0} {1} {2} {3}",
            ]
        )
        return form.format(*words)

    def ask(self, rag: E2GraphRAG, tenant: str) -> tuple[str, str, str]:
        """Return the text that a tenant typed, what it asked for, and all that it got."""
        chosen = self.random
        reader = rag.scoped(
            {"tenant": tenant}, statistics=chosen.choice(["scope", "scope", "index"])
        )
        if chosen.random() < 0.1:
            reader = reader.scoped({"kind": {"$ne": "memo"}})
        kind = chosen.random()
        ask = self._retrieve if kind < 0.75 else self._browse
        return ask(reader, tenant)

    def _retrieve(self, reader: ScopedReader, tenant: str) -> tuple[str, str, str]:
        chosen = self.random
        other = TENANTS[tenant == "a"]
        question = self.question(tenant)
        options: dict[str, Any] = {
            "k": chosen.choice([1, 3, 10, 50]),
            "mode": chosen.choice(["auto", "local", "global"]),
            "expand": chosen.choice(["none", "none", "children", "leaves"]),
            "fill": chosen.random() < 0.2,
            "paths": chosen.random() < 0.3,
            "strategy": chosen.choice(
                [
                    HybridStrategy(),
                    HybridStrategy(budget_summaries="flat"),
                    PaperStrategy(),
                    TreeTraversalStrategy(),
                    SpyStrategy(),
                ]
            ),
        }
        typed = [question]
        if chosen.random() < 0.3:
            options["token_budget"] = chosen.choice([20, 100, 1000])
        if chosen.random() < 0.3:
            history = [self.question(tenant) for _ in range(2)]
            options["history"] = [("user", history[0]), ("assistant", history[1]), "And then?"]
            typed += history
        if chosen.random() < 0.3:
            options["boost"] = self._boost(other, typed)
        if chosen.random() < 0.3:
            options["where"] = self._where(other, typed)
        what = f"retrieve({question!r}, {options})"
        return (
            " ".join(typed),
            what,
            _got(lambda: reader.retrieve(question, **options), _everything),
        )

    def _boost(self, other: str, typed: list[str]) -> dict[str, Any]:
        id_ = self.random.choice([*self.documents, self.hint(self.canaries[other][0])])
        tag = self.random.choice([*self.tags, self.hint(self.tags[0])])
        typed += [id_, tag]
        return self.random.choice(
            [{"documents": {id_: 2.0}}, {"tag": {tag: 2.0}}, {"boost_field": "kind"}]
        )

    def _where(self, other: str, typed: list[str]) -> Any:
        tag = self.random.choice([*self.tags, self.hint(self.tags[0])])
        id_ = self.random.choice([*self.documents])
        typed += [tag, id_]
        return self.random.choice(
            [
                {"tenant": other},
                {"tenant": {"$exists": True}},
                {"$or": [{"tenant": other}, {"tenant": {"$exists": False}}, {"document_id": id_}]},
                {"$not": {"tenant": "nobody"}},
                _Everyone(),
                tagged(tag),
            ]
        )

    def _browse(self, reader: ScopedReader, tenant: str) -> tuple[str, str, str]:
        chosen = self.random
        other = TENANTS[tenant == "a"]
        hint = self.hint(chosen.choice(self.canaries[other]))
        id_ = chosen.choice([*self.documents, hint])
        node = chosen.choice([*self.nodes[other], *self.nodes[tenant], hint])
        calls: dict[str, Callable[[], Any]] = {
            "entities": lambda: reader.entities(prefix=hint[:3]),
            "all entities": reader.entities,
            "entity": lambda: reader.entity(hint),
            "own entity": lambda: reader.entity(chosen.choice(SHARED)),
            "communities": lambda: reader.communities(chosen.choice([0, 0, 1, 9])),
            "stats": reader.stats,
            "ids": lambda: reader.document_ids,
            "document": lambda: reader.document(id_),
            "nodes": lambda: reader.nodes([node]),
            "tags": reader.tag_counts,
            "repr": lambda: repr(reader),
            "list": lambda: list_entities(reader, hint[:3]),
            "neighborhood": lambda: neighborhood(reader, chosen.choice([hint, *SHARED])),
            "edge": lambda: edge_sentences(reader, chosen.choice(SHARED), chosen.choice(SHARED)),
            "path": lambda: find_connection(reader, chosen.choice(SHARED), hint),
            "tree": lambda: document_tree(reader, id_),
            "children": lambda: node_children(reader, node),
            "report": lambda: [
                contents.graph(reader, ()),
                contents.documents(reader),
                contents.document(reader, id_),
                contents.statistics(reader),
            ],
        }
        name = chosen.choice([*calls])
        return f"{hint} {id_}", name, _got(calls[name], repr)


class _Everyone:
    """A filter that accepts every record, and shows what it was given."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def __call__(self, metadata: Any) -> bool:
        self.seen.append(dict(metadata))
        return True

    def __repr__(self) -> str:
        return f"Everyone({self.seen})"


class SpyStrategy(HybridStrategy):
    """Puts everything that a strategy can see of the index into its reason."""

    def rank(self, query: Any, snapshot: Snapshot) -> Any:
        candidates, trace = super().rank(query, snapshot)
        seen = repr([query, *_content_of(snapshot)])
        logging.getLogger("e2graphrag_integrations").warning("%s", seen)
        return candidates, trace


def _content_of(snapshot: Snapshot) -> Iterator[Any]:
    yield from (snapshot.generation, snapshot.documents, snapshot.titles, snapshot.stamps)
    yield from (list(snapshot.nodes.ids), list(snapshot.graph.names), snapshot.records.values)
    yield from (list(snapshot.unedited_names), list(snapshot.subjects.names), snapshot.edits)
    yield from (snapshot.subjects.choice, list(snapshot.subject_candidates.names))
    yield from (list(snapshot.bm25.postings.vocabulary), snapshot.bm25.corpus)
    yield from (snapshot.records.languages, snapshot.segments)
    yield vars(snapshot.aliases)


def _everything(result: Any) -> str:
    parts = [repr(result), result.trace.explain(), result.context()]
    parts += [json.dumps(result.trace.to_dict(), default=repr), repr(result.subgraph().nodes)]
    assert result.trace.freshness is None
    return "\n".join(parts)


def _got(work: Callable[[], Any], shown: Callable[[Any], str]) -> str:
    """Return everything that a call returns or raises."""
    try:
        return shown(work())
    except E2GraphRAGError as error:
        text = "".join(traceback.format_exception(error))
        # The traceback shows lines of this file and of the package, which name no canary.
        return re.sub(r'File "[^"]*"', "", text)


@contextmanager
def _messages() -> Iterator[io.StringIO]:
    """Collect log messages and warnings."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    logger = logging.getLogger("e2graphrag_integrations")
    propagate = logger.propagate
    logger.addHandler(handler)
    logger.propagate = False
    try:
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *_, **__: stream.write(str(message))
            yield stream
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagate
