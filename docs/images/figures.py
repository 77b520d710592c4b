"""Draw the figures of docs/concepts.md and docs/ranking.md, with all-MiniLM-L6-v2.

Usage: `make figures`. A test checks that the files are what this script draws.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path

from drawing import (
    BLUE,
    GREEN,
    INK,
    LINE,
    MARGIN,
    MUTED,
    ORANGE,
    PALE_BLUE,
    PALE_GRAY,
    PALE_GREEN,
    PALE_ORANGE,
    PURPLE,
    RED,
    WIDTH,
    Drawing,
    shorten,
    wrap,
)

from e2graphrag_integrations import (
    E2GraphRAG,
    Embedder,
    HybridStrategy,
    IndexSettings,
    SourceDocument,
)
from e2graphrag_integrations.cli.demo import demo_text
from e2graphrag_integrations.types import Node

LOG = SourceDocument(
    "log",
    "Captain Ahlers sailed the Freya from Bergen to Oslo in May. Greta Lund came aboard in Oslo "
    "with a sealed map. The map showed a harbor that nobody in Oslo knew. Captain Ahlers asked "
    "Greta Lund who had drawn the map. Greta Lund said that Professor Moe drew it in Tromso. A "
    "storm broke the mast near Stavanger. Captain Ahlers repaired it with timber from "
    "Stavanger. The crew ate bread and dried fish for nine days. The Freya reached the harbor "
    "of the map in July. Greta Lund found a mill there, and an old grave. Captain Ahlers wrote "
    "the position of the mill into the log. The Freya returned to Bergen with the log and the "
    "map.",
    title="Log of the Freya",
    metadata={"owner": "harbor office"},
)
MOE = SourceDocument(
    "moe",
    "Professor Moe taught geography in Tromso. He measured the coast in winter. He left all of his "
    "maps to a student.",
    title="Professor Moe",
    metadata={"owner": "university"},
)
QUESTION = "What did the professor who drew the map of Greta Lund teach?"
NOTES = {
    "tarn": "Pavel Orth founded the Tarn Observatory in 1911.",
    "orth": "Pavel Orth died of influenza in Ostby.",
    "vik": "Ida Brandt founded the Vik Theatre, and died of a fever in Moss.",
    "lorne": "Nobody knows who founded the Lorne Library, or of what the founder died.",
    "sund": "The founder of the Sund Observatory died of a fever, too.",
    "tower": "The founder of the Elm Observatory died in a fall from its tower.",
}
TWO_HOPS = "Of what did the founder of the Tarn Observatory die?"
HIT_COLORS = (BLUE, ORANGE, GREEN, PURPLE)
LISTS = {"relevance": "relevance", "entities": "entities", "title_links": "title links"}


def small_index(embedder: Embedder | None) -> E2GraphRAG:
    """Index two short documents: about one sentence per chunk, groups of three."""
    rag = E2GraphRAG.open(
        ":memory:",
        embedder=embedder,
        settings=IndexSettings(chunk_size=14, chunk_overlap=0, group_size=3),
    )
    rag.add([LOG, MOE])
    return rag


def nodes_of(rag: E2GraphRAG, document_id: str) -> list[list[Node]]:
    """Return the nodes of a document by level, chunks first, each level in text order."""
    lines = [json.loads(line) for line in rag.export()]
    ids = [one["node"] for one in lines if "node" in one and one["document"] == document_id]
    nodes = sorted(rag.nodes(ids).values(), key=lambda node: (node.level, node.position))
    return [list(level) for _, level in groupby(nodes, lambda node: node.level)]


def tree_figure(rag: E2GraphRAG) -> str:
    """Draw the summaries of the log beside the chunks that they cover."""
    levels = nodes_of(rag, LOG.id)
    lefts, widths, row = (MARGIN, 208, 402), (180, 180, WIDTH - MARGIN - 402), 30
    drawing = Drawing("Summary tree of a document with twelve chunks")
    columns = list(reversed(list(enumerate(levels))))
    for (level, nodes), x in zip(columns, lefts, strict=True):
        name = "chunks, with their spans" if level == 0 else f"summaries, level {level}"
        drawing.text(x, 26, name, MUTED, bold=True)
        drawing.text(x + (0 if level else 200), 26, "" if level else f"{len(nodes)} chunks", MUTED)
    for level, nodes in enumerate(levels):
        x, width = lefts[len(levels) - 1 - level], widths[len(levels) - 1 - level]
        for node in nodes:
            covered = [
                at
                for at, chunk in enumerate(levels[0])
                if node.start <= chunk.start and chunk.end <= node.end
            ]
            first, last = covered[0], covered[-1]
            top, height = 38 + first * row, (last - first + 1) * row - 5
            drawing.box(x, top, width, height, PALE_ORANGE if level else PALE_BLUE)
            if node.parent_id:
                drawing.line(x - 14, top + height / 2, x, top + height / 2, MUTED)
            span = f"{node.start}-{node.end}"
            if level == 0:
                drawing.text(x + 8, top + 17, span, MUTED, size=11)
                drawing.text(x + 62, top + 17, shorten(node.text, width - 66))
                continue
            drawing.text(x + 8, top + 16, f"covers {span}", MUTED, size=11)
            for number, line in enumerate(wrap(node.text, width - 14, int(height // 16) - 1)):
                drawing.text(x + 8, top + 33 + 16 * number, line)
    return drawing.svg(38 + len(levels[0]) * row + 8)


def spread(
    weights: Mapping[tuple[str, str], float], names: Sequence[str]
) -> dict[str, list[float]]:
    """Lay a graph out: neighbors attract and all nodes repel each other (Fruchterman, Reingold).

    It uses only operations that give the same result on each machine.
    """
    places = {
        name: [math.cos(6.283 * at / len(names)), math.sin(6.283 * at / len(names))]
        for at, name in enumerate(names)
    }
    ideal = 1.6 / math.sqrt(len(names))
    for step in range(300):
        forces = {name: [-0.5 * x, -0.5 * y] for name, (x, y) in places.items()}
        for a in names:
            for b in names:
                if a >= b:
                    continue
                dx, dy = places[a][0] - places[b][0], places[a][1] - places[b][1]
                distance = math.sqrt(dx * dx + dy * dy) or 0.01
                push = ideal * ideal / distance
                if (a, b) in weights:
                    push -= distance * distance / ideal * (0.1 + 0.3 * weights[a, b])
                for name, sign in ((a, 1), (b, -1)):
                    forces[name][0] += sign * push * dx / distance
                    forces[name][1] += sign * push * dy / distance
        limit = 0.1 * (1 - step / 300)
        for name, (x, y) in forces.items():
            size = math.sqrt(x * x + y * y) or 0.01
            places[name][0] += x / size * min(size, limit)
            places[name][1] += y / size * min(size, limit)
    return places


def graph_figure(rag: E2GraphRAG) -> str:
    """Draw the entities of the log, and the edges between those that share a sentence."""
    found = rag.entities(top=100, where={"document_id": LOG.id})
    entities = {one.name: one for one in found if one.degree}  # without the title
    names = sorted(entities)
    weights = {
        (min(a, b), max(a, b)): data["weight"]
        for a, b, data in rag.graph.to_networkx().edges(data=True)
        if a in entities and b in entities
    }
    places = spread(weights, names)
    lows = [min(place[axis] for place in places.values()) for axis in (0, 1)]
    highs = [max(place[axis] for place in places.values()) for axis in (0, 1)]
    height = 440
    sizes = (WIDTH - 170, height - 110)
    spots = {
        name: tuple(
            start + size * (place[axis] - lows[axis]) / (highs[axis] - lows[axis])
            for axis, start, size in ((0, 85, sizes[0]), (1, 62, sizes[1]))
        )
        for name, place in places.items()
    }
    drawing = Drawing("Entity graph of the same twelve chunks")
    drawing.text(
        MARGIN,
        26,
        f"{len(names)} entities and {len(weights)} edges; blue: names; gray: other nouns",
        MUTED,
        bold=True,
    )
    for (a, b), weight in sorted(weights.items()):
        drawing.line(*spots[a], *spots[b], LINE, 1 + 3 * weight)
    for name in names:
        x, y = spots[name]
        radius, named = 3 + 2 * entities[name].chunks, entities[name].named
        drawing.circle(x, y, radius, BLUE if named else MUTED)
        drawing.text(x, y - radius - 4, name, INK, bold=named, anchor="middle")
    return drawing.svg(height)


def fusion_figure(rag: E2GraphRAG) -> str:
    """Draw the ranked lists of a question, and the result of their fusion."""
    result = rag.retrieve(QUESTION, k=len(HIT_COLORS))
    trace, numbers = result.trace, {node.node_id: at for at, node in enumerate(result.nodes)}
    drawing = Drawing("Three ranked lists and their fusion for one question")
    drawing.text(MARGIN, 28, f"“{QUESTION}”", bold=True, size=14)
    links = ", ".join(link.entity for link in trace.links)
    subjects = ", ".join(one.subject for one in trace.title_links)
    drawing.text(MARGIN, 48, f"names in the question: {links}", MUTED)
    drawing.text(MARGIN, 64, f"followed title links: {subjects}", MUTED)
    shown, width, row = 5, (WIDTH - 2 * MARGIN - 24) / 3, 44
    for column, (name, label) in enumerate(LISTS.items()):
        ranked = trace.lists[name][:shown]
        x = MARGIN + column * (width + 12)
        drawing.text(x, 92, f"{label}: {len(trace.lists[name])} nodes", MUTED, bold=True)
        nodes = rag.nodes([one.node_id for one in ranked])
        for at, one in enumerate(ranked):
            y, number = 100 + at * row, numbers.get(one.node_id)
            drawing.box(x, y, width, row - 5)
            drawing.text(x + 8, y + 23, f"{one.rank}", MUTED)
            if number is not None:
                drawing.badge(x + 30, y + 19, number + 1, HIT_COLORS[number])
            color = INK if number is not None else MUTED
            for line, text in enumerate(wrap(nodes[one.node_id].text, width - 52, 2)):
                drawing.text(x + 44, y + 16 + 15 * line, text, color)
    top = 100 + shown * row + 26
    drawing.text(MARGIN, top - 8, f"result: {result.route} ({trace.reason})", MUTED, bold=True)
    for at, node in enumerate(result.nodes):
        y = top + at * 30
        drawing.box(MARGIN, y, WIDTH - 2 * MARGIN, 26, PALE_GREEN)
        drawing.badge(MARGIN + 16, y + 13, at + 1, HIT_COLORS[at])
        source = f"{node.document_id} {node.start}-{node.end}"
        drawing.text(MARGIN + 34, y + 17, source, MUTED, size=11)
        drawing.text(MARGIN + 112, y + 17, shorten(node.text, 300))
        ranks = (reason.split(", through")[0] for reason in node.reasons)
        reasons = ", ".join(ranks).replace("_", " ").replace(": rank", "")
        drawing.text(WIDTH - MARGIN - 8, y + 17, reasons, MUTED, anchor="end", size=11)
    return drawing.svg(top + len(result.nodes) * 30 + 8)


def bridge_figure(embedder: Embedder | None) -> str:
    """Draw the bridge from the first to the second hop of a question, and what it changes."""
    drawing = Drawing("A name leads from the best chunk to a chunk about it")
    documents = [SourceDocument(id_, text) for id_, text in NOTES.items()]
    with E2GraphRAG.open(":memory:", embedder=embedder) as rag:
        rag.add(documents)
        results = {
            "without bridges": rag.retrieve(TWO_HOPS, strategy=HybridStrategy(bridge_weight=0)),
            "with bridges": rag.retrieve(TWO_HOPS),
        }
        bridge = results["with bridges"].trace.bridges[0]
        ends = rag.nodes([bridge.source, bridge.target])
    drawing.text(MARGIN, 28, f"“{TWO_HOPS}”", bold=True, size=14)
    half = (WIDTH - 2 * MARGIN - 150) / 2
    labels = ("a hit with many words of the question", "a chunk with the words that it lacks")
    fills = (PALE_BLUE, PALE_GREEN)
    for end, (node, label, fill) in enumerate(zip(ends.values(), labels, fills, strict=True)):
        x = MARGIN + end * (half + 150)
        drawing.text(x, 58, label, MUTED)
        drawing.box(x, 66, half, 52, fill)
        drawing.badge(x + 18, 92, end + 1, HIT_COLORS[end])
        for line, text in enumerate(wrap(node.text, half - 48, 2)):
            drawing.text(x + 36, 88 + 17 * line, text)
    x, y = MARGIN + half, 92
    drawing.line(x + 4, y, x + 146, y, ORANGE, 2)
    drawing.line(x + 138, y - 5, x + 146, y, ORANGE, 2)
    drawing.line(x + 138, y + 5, x + 146, y, ORANGE, 2)
    drawing.text(x + 75, y - 10, bridge.name, bold=True, anchor="middle")
    drawing.text(x + 75, y + 20, "a name in few chunks", MUTED, anchor="middle", size=11)
    numbers = {bridge.source: 0, bridge.target: 1}
    width = (WIDTH - 2 * MARGIN - 12) / 2
    for column, (title, result) in enumerate(results.items()):
        x = MARGIN + column * (width + 12)
        drawing.text(x, 148, title, MUTED, bold=True)
        for at, node in enumerate(result.nodes[:4]):
            top, number = 156 + at * 32, numbers.get(node.node_id)
            drawing.box(x, top, width, 28)
            drawing.text(x + 8, top + 18, f"{at + 1}", MUTED)
            if number is not None:
                drawing.badge(x + 30, top + 14, number + 1, HIT_COLORS[number])
            color = MUTED if number is None else INK
            drawing.text(x + 44, top + 18, shorten(node.text, width - 52), color)
    return drawing.svg(156 + 4 * 32 + 8)


def update_figure() -> str:
    """Draw the tree of a document before and after an edit of one word."""
    text = " ".join(demo_text().read_text(encoding="utf-8")[:12_000].split())
    at = text.index("Filby", 4_000)
    edited = f"{text[:at]}young {text[at:]}"
    with E2GraphRAG.open(
        ":memory:",
        embedder="hashing",
        settings=IndexSettings(chunking="content", grouping="content", chunk_size=80),
    ) as rag:
        rag.add(SourceDocument("novel", text))
        before = nodes_of(rag, "novel")
        report = rag.update(SourceDocument("novel", edited))
        after = nodes_of(rag, "novel")
    known = {node.id for level in before for node in level}
    kept = known & {node.id for level in after for node in level}
    drawing = Drawing("The nodes that an edit of one word changes")
    for half, (title, levels) in enumerate((("before", before), ("after", after))):
        top, length = 20 + half * 150, len(text)
        drawing.text(MARGIN, top + 10, title, MUTED, bold=True)
        for level, nodes in enumerate(reversed(levels)):
            for node in nodes:
                x = MARGIN + (WIDTH - 2 * MARGIN) * node.start / length
                width = (WIDTH - 2 * MARGIN) * (node.end - node.start) / length
                fill = PALE_GRAY if node.id in kept else (PALE_GREEN, PALE_ORANGE)[half == 0]
                line = LINE if node.id in kept else (GREEN, RED)[half == 0]
                drawing.box(x, top + 20 + level * 34, max(width - 2, 3), 28, fill, line)
    changed = sum(len(level) for level in after) - len(kept)
    total = sum(len(level) for level in after)
    drawing.text(
        MARGIN,
        322,
        f"One word inserted: {changed} of {total} nodes are new (green) and replace the red ones; "
        f"{report.embedded} are embedded, and all others are kept.",
    )
    return drawing.svg(336)


def scopes_figure(rag: E2GraphRAG) -> str:
    """Draw the nodes and entities of an index, and those that one scope sees."""
    scope = {"owner": "university"}
    half = (WIDTH - 3 * MARGIN) / 2
    drawing = Drawing("An index, and a scope of it")
    for x, title, view in (
        (MARGIN, "the index", rag),
        (2 * MARGIN + half, f"rag.scoped({scope})", rag.scoped(scope)),
    ):
        drawing.text(x, 26, title, MUTED, bold=True)
        y = 36.0
        for document in (LOG, MOE):
            levels = nodes_of(rag, document.id)
            if document.id in view.document_ids:
                drawing.text(x, y + 14, f"{document.id}, owner: {document.metadata['owner']}")
            for number, level in enumerate(reversed(levels)):
                for node in view.nodes([node.id for node in level]).values():
                    left = x + half * node.start / level[-1].end
                    width = half * (node.end - node.start) / level[-1].end - 2
                    fill = PALE_ORANGE if node.level else PALE_BLUE
                    drawing.box(left, y + 22 + 22 * number, width, 18, fill)
            y += 30 + 22 * len(levels)
        entities = view.entities(top=100)
        drawing.text(x, y + 14, f"{len(entities)} entities, with their chunks:", MUTED, bold=True)
        names = ", ".join(f"{one.name} {one.chunks}" for one in entities)
        for number, line in enumerate(wrap(names, half, 4)):
            drawing.text(x, y + 32 + 16 * number, line)
    return drawing.svg(y + 98)


def figures(embedder: Embedder | None = None) -> dict[str, str]:
    """Return all figures by file name. `embedder` may be an all-MiniLM-L6-v2 that is loaded."""
    with small_index(embedder) as rag:
        return {
            "tree.svg": tree_figure(rag),
            "graph.svg": graph_figure(rag),
            "fusion.svg": fusion_figure(rag),
            "bridge.svg": bridge_figure(embedder),
            "update.svg": update_figure(),
            "scopes.svg": scopes_figure(rag),
        }


def main() -> None:
    """Write the figures."""
    for name, svg in figures().items():
        Path(__file__).with_name(name).write_text(svg, encoding="utf-8")


if __name__ == "__main__":
    main()
