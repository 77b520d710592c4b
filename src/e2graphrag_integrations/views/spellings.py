"""How the texts write the names of entities, whose normal forms have no capitals."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from functools import cache

from e2graphrag_integrations.entities.subjects import split_subjects
from e2graphrag_integrations.graph.titles import title_form
from e2graphrag_integrations.retrieval.entities.entity_view import EntityView
from e2graphrag_integrations.retrieval.hydrate import NodeReader, NodeSource
from e2graphrag_integrations.text.broken_words import on_one_line
from e2graphrag_integrations.text.headings import section_name

_SAMPLE = 8
"""Maximum number of chunks, evenly spread, whose mentions of an entity are compared."""

_BATCH = 500
"""Maximum number of chunks that are read at once."""


def spellings(view: EntityView, source: NodeSource, rows: Sequence[int]) -> list[str]:
    """Return entities as the texts most often write them, or else as titles or edits do.

    The snapshot remembers them, so that each entity is read once.

    Args:
        view: The entities.
        source: The stored nodes.
        rows: The entities.

    Raises:
        StaleSnapshotError: If the stored nodes are newer than the snapshot.
    """
    known = view.snapshot.spellings
    missing = [row for row in dict.fromkeys(rows) if row not in known]
    if missing:
        known.update(_read(view, source, missing))
    return [known[row] for row in rows]


def _read(view: EntityView, source: NodeSource, rows: Sequence[int]) -> Iterator[tuple[int, str]]:
    names, edits = view.subjects.names, view.snapshot.edits
    counts = _counts(view, source, rows)
    given = [*edits.aliases.values(), *(one.names[1] for one in edits.homonyms)]
    in_edits = {edits.form(name): name for name in given}
    for row in rows:
        name = names[row]
        written = counts.get(name, Counter())
        own = {one: count for one, count in written.items() if edits.form(one) == name}
        # An alias must not replace the name that the user gave, however rare that is.
        label = _most_common(own) or in_edits.get(name) or _in_title(view, row)
        yield row, label or _most_common(written) or name


def _most_common(counts: dict[str, int]) -> str:
    """Return the most frequent spelling; of equally frequent ones, rather "Mars" than "MARS"."""
    mixed_first = {one: (counts[one], not (one.isupper() or one.islower())) for one in counts}
    return max(counts, key=mixed_first.__getitem__, default="")


def _counts(view: EntityView, source: NodeSource, rows: Sequence[int]) -> dict[str, Counter[str]]:
    """Return how often some chunks of each entity have each spelling of it, by its name."""
    wanted: dict[int, set[str]] = defaultdict(set)
    for row in rows:
        chunks = view.chunks_of(row)
        for chunk in chunks[:: -(-len(chunks) // _SAMPLE) or 1].tolist():
            wanted[chunk].add(view.subjects.names[row])
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    in_order = sorted(wanted)
    for first in range(0, len(in_order), _BATCH):
        batch = in_order[first : first + _BATCH]
        nodes = view.snapshot.chunk_nodes[batch].tolist()
        for chunk, mentions in zip(batch, _written(view, source, nodes), strict=True):
            for name, text in mentions:
                if name in wanted[chunk]:
                    counts[name][text] += 1
    return counts


def _written(
    view: EntityView, source: NodeSource, rows: Sequence[int]
) -> Iterator[list[tuple[str, str]]]:
    """Yield the entity and the spelling of each mention in chunks; a noun is in the singular."""
    edits, reader = view.snapshot.edits, NodeReader(view.snapshot, source)
    entity_of = cache(edits.entity_of)
    for node, sentences in zip(reader.read(rows), reader.read_mentions(rows), strict=True):
        found = []
        for mention in (m for s in split_subjects(sentences)[1] for m in s):
            text = node.text[mention.start : mention.end] if mention.named else mention.entity
            found.append((entity_of(mention.entity), on_one_line(text)))
        yield found


def _in_title(view: EntityView, row: int) -> str:
    """Return the name of an entity in the title of a document or section, or an empty string."""
    name, edits, choice = view.subjects.names[row], view.snapshot.edits, view.subjects.choice
    about = (choice.of_documents[place].names for place in view.subject_of(row))
    titles: list[str | None] = [title for names in about for title in names]
    titles += [section_name(section.name) for form, section in choice.sections if form == name]
    for title in (on_one_line(one) for one in titles if one):
        if name in (edits.entity_of(title), title_form(title)):
            return title
    return ""
