"""Follow-up questions: completing a question with words, names and the topic of earlier turns.

The incompleteness of a question, in [0, 1], says how much it needs the earlier turns:

* 1 if it refers back before any name, with a word such as "it", "they", "these" or "what about";
* 1 if its specificity is below 2, and words before any name leave open what it is about: "And ...",
  "How often?", or a noun with a definite article that nothing in the question identifies
  (`references.py`);
* otherwise `1 - specificity / 2.5`, at least 0, where the specificity is the sum of the squared
  relative IDF of its words. Rare words make a question complete, in any language;
* at least 0.7 if the question has no name.

A turn has the weight `need * 0.7 ** n`, where n is the number of later turns of the same role. The
need is the incompleteness times the relatedness of the turn, which depends on the cosine between
the question and the turn of the user; an answer has the relatedness of the turn before it. A
question with hardly any specific word says nothing about its topic, so its need is 1. One that
refers back or leaves open what it is about has at least the need 0.5: its own words may have
another topic. It needs unrelated turns not at all if it points at a thing that no turn names, as
in "this comet".

What the pronouns of the question mean (`antecedents.py`) counts as if the question named it. If it
is likely, the other words of its turns count a twentieth, and the other turns not at all. If a
question only replaces a name ("And Ann?"), the names of the turns count a tenth.

A turn adds its words to BM25 and its names to the entities of the query, with lower weights than
the question's own. A turn of the user also adds its vector to that of the question.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Literal

from e2graphrag_integrations.components import Components
from e2graphrag_integrations.embedders.calibration import Calibration, RelevanceCalibration
from e2graphrag_integrations.embedders.windowed import mean_unit_vector
from e2graphrag_integrations.entities.normalize import normal_form
from e2graphrag_integrations.protocols import FloatArray
from e2graphrag_integrations.retrieval.history.antecedents import Meant, antecedents_of
from e2graphrag_integrations.retrieval.history.pronouns import pronouns_of
from e2graphrag_integrations.retrieval.history.references import (
    back_reference,
    ellipsis_of,
    is_topic,
    names_in,
    open_reference,
    pointed_noun,
)
from e2graphrag_integrations.retrieval.history.turns import Carried, CarriedTurn, Role, Turn
from e2graphrag_integrations.retrieval.question_words import specific_terms
from e2graphrag_integrations.retrieval.reasons import Reason
from e2graphrag_integrations.retrieval.strategy import Query
from e2graphrag_integrations.search.bm25 import BM25Index
from e2graphrag_integrations.snapshot.snapshot import Snapshot
from e2graphrag_integrations.text.words import terms_of
from e2graphrag_integrations.types import Mention

_DECAY = 0.7
"""Factor of the weight of a turn for each later turn of the same role."""

_SPECIFIC = 2.5
"""Specificity from which a question is complete."""

_NO_NAME = 0.7
"""Least incompleteness of a question without a name."""

_RESOLVED = 3.5
"""Minimum specificity at which a pronoun probably refers to a part of the question itself."""

_OPEN = 2.0
"""Specificity from which a question probably identifies what its words leave open."""

_TOPIC = 0.8
"""Specificity from which one or two words without a question mark are a topic of their own."""

_VAGUE = 0.4
"""Specificity below which a question says nothing about its topic, such as "Cost?"."""

_UNRELATED, _RELATED = 0.15, 0.3
"""Cosines of all-MiniLM-L6-v2 between a question and a turn at which the relatedness is 0 and 1."""

_UNRELATED_ODDS, _RELATED_ODDS = -2.8905, -2.073
"""The log-odds of relevance that these cosines have in the calibration of that model."""

_DOUBTFUL = 0.5
"""Need of a question with words of its own for an unrelated turn, if it seems to refer back."""

_MIN_WEIGHT = 0.05
"""Turns with a lower weight are left out."""

_TERM_WEIGHTS = {"user": 0.5, "assistant": 0.1}
"""Weight of a turn's words relative to that of the turn. Answers are long, and partly wrong."""

_NAME_WEIGHTS = {"user": 0.5, "assistant": 0.2}
"""Weight of a turn's names relative to that of the turn."""

_MAX_NAMES = 16
"""Maximum number of names to carry over, the highest weights first."""

_DECIDED = 0.5
"""Value of an antecedent from which turns without it count less."""

_REPLACED = 0.1
"""Factor of the names of turns if the question only replaces a name: "And Ann?" after "How old is
Bob?" """

_AROUND = 0.05
"""Factor of the weight of a turn that contains a likely antecedent. Turns without it have none."""


@dataclass(frozen=True, slots=True)
class _Taken:
    """What a question takes from the conversation.

    Attributes:
        turns: Turns and their weights.
        meant: The antecedents.
        of_names: Factor of the names of the turns.
    """

    turns: Sequence[tuple[Turn, CarriedTurn]]
    meant: Sequence[Meant]
    of_names: float


def carry_over(query: Query, snapshot: Snapshot, components: Components) -> Query:
    """Return the query completed from its `history`, with `carried` set.

    A complete question is returned unchanged, except for `carried`. The models read each turn once;
    `components` remembers the results.

    Args:
        query: The query; `mentions` are those of the question.
        snapshot: The search index.
        components: The models.

    Raises:
        ExtractionError: If the extractor fails.
        EmbeddingError: If the embedder fails.
    """
    turns = query.history
    if turns and turns[-1] == ("user", query.question.strip()):
        turns = turns[:-1]  # some frameworks add the question to the history first
    among = snapshot.question_languages
    mentions = components.mentions_of(query.question, among) if snapshot.has_names else ()
    back = back_reference(query.question, mentions)
    is_elliptical = bool(ellipsis_of(query.question))
    specificity = 0.0 if is_elliptical else _specificity(query.question, snapshot.bm25)
    is_open = specificity < (_TOPIC if is_topic(query.question) else _OPEN)
    opened = open_reference(query.question, mentions) if is_open else ""
    value = max(0.0, 1 - specificity / _SPECIFIC)
    reason = Reason("specific_words", specificity=specificity)
    if not any(one.named for one in mentions) and value < _NO_NAME:
        value, reason = _NO_NAME, Reason("no_name")
    if opened:
        value, reason = 1.0, Reason("opened", words=opened)
    if back:
        value, reason = 1.0, Reason("refers_back", words=back)
    if not turns or value < _MIN_WEIGHT:
        return replace(query, carried=Carried(value, reason))
    vector = query.vector
    if vector is None:
        texts = query.embed_texts or (query.search_text,)
        vector = mean_unit_vector([components.vector_of(text) for text in texts])
    needs_any = specificity < (_RESOLVED if back else _OPEN if opened else _VAGUE)
    meant = _meant(query, turns, snapshot, components) if (back or opened) and needs_any else []
    least = 0.0
    if needs_any:
        is_new = not meant and _is_new(pointed_noun(query.question, mentions), turns)
        least = 1.0 if specificity < _VAGUE else 0.0 if is_new else _DOUBTFUL
    chosen = list(_weighted(turns, vector, value, components, least=least))
    carried = Carried(value, reason)
    if not chosen:
        return replace(query, carried=carried)
    is_about_another = bool(opened) and bool(names_in(query.question, mentions))
    taken = _Taken(_around(chosen, meant), meant, _REPLACED if is_about_another else 1.0)
    return _completed(replace(query, vector=vector), carried, taken, snapshot, components)


def _specificity(question: str, bm25: BM25Index) -> float:
    """Return the sum of the squared IDF of the question's words, without function words.

    The IDF is relative to that of a word in a single window, or of an unknown word, which is 1.
    """
    unknown = bm25.idf_of_unique
    if not unknown:
        return 0.0
    terms = sorted(set(specific_terms(question)))
    return sum(((bm25.idf(term) or unknown) / unknown) ** 2 for term in terms)


def _weighted(
    turns: Sequence[Turn],
    question: FloatArray,
    incompleteness: float,
    components: Components,
    *,
    least: float,
) -> Iterator[tuple[Turn, CarriedTurn]]:
    """Yield the turns whose weight is high enough, the latest first, with their weights.

    `turns` has the oldest first, and `question` is the vector of the question, which needs the
    turns at least as much as `least`, whatever their relatedness.
    """
    relatedness, found = 0.0, []
    for turn in turns:
        if turn.role == "user":
            cosine = float(question @ components.vector_of(turn.text))
            relatedness = _relatedness(cosine, components.calibration)
        found.append((turn, relatedness))
    later: dict[Role, int] = {"user": 0, "assistant": 0}
    for turns_back, (turn, relatedness) in enumerate(reversed(found), 1):
        need = max(least, incompleteness * relatedness)
        weight = need * _DECAY ** later[turn.role]
        later[turn.role] += 1
        if weight >= _MIN_WEIGHT:
            yield turn, CarriedTurn(turns_back, turn.role, round(weight, 4), round(relatedness, 4))


def _is_new(noun: str, turns: Sequence[Turn]) -> bool:
    """Return whether a noun is given and no turn contains it."""
    return bool(noun) and all(noun not in turn.text.lower() for turn in turns)


def _relatedness(cosine: float, calibration: Calibration) -> float:
    """Return how related a question and a turn are, in [0, 1].

    The cosines of some models are all high, so their calibration decides if it is known.
    """
    value, low, high = cosine, _UNRELATED, _RELATED
    if isinstance(calibration, RelevanceCalibration):
        value = calibration.slope * cosine + calibration.intercept
        low, high = _UNRELATED_ODDS, _RELATED_ODDS
    return min(1.0, max(0.0, (value - low) / (high - low)))


def _meant(
    query: Query, turns: Sequence[Turn], snapshot: Snapshot, components: Components
) -> list[Meant]:
    """Return what the pronouns of the question mean."""
    pronouns = list(pronouns_of(query.question, query.mentions))
    if not pronouns or query.mode == "global" or not snapshot.has_names:
        return []
    among = snapshot.question_languages
    read = [(turn, components.mentions_of(turn.text, among)) for turn in reversed(turns)]

    def known(name: str) -> Literal["name", "noun", ""]:
        form = normal_form(name)
        if snapshot.is_name(form):
            return "name"
        return "noun" if form in snapshot.subjects.index else ""

    return list(antecedents_of(pronouns, read, known))


def _around(
    chosen: Sequence[tuple[Turn, CarriedTurn]], meant: Sequence[Meant]
) -> list[tuple[Turn, CarriedTurn]]:
    """Return the turns that matter beside the antecedents.

    If a likely antecedent says what the question is about, the others words of its turns are about
    the earlier question, and turns without it about something else.
    """
    decided = [one.name for one, mention in meant if mention and one.value >= _DECIDED]
    if not decided:
        return list(chosen)
    return [
        (turn, replace(one, weight=round(one.weight * _AROUND, 4)))
        for turn, one in chosen
        if any(name in turn.text for name in decided)
    ]


def _completed(
    query: Query,
    carried: Carried,
    taken: _Taken,
    snapshot: Snapshot,
    components: Components,
) -> Query:
    """Return the query with the words, names and vectors of the turns, and the antecedents."""
    own = set(terms_of(query.question))
    own_names = {one.entity for one in query.mentions}
    terms: dict[str, float] = {}
    names: dict[str, tuple[float, Mention]] = {}

    def add(text: str, mentions: Iterable[Mention], of_term: float, of_name: float) -> None:
        named = [mention for mention in mentions if mention.named]
        of_names = {term for one in named for term in terms_of(one.entity)}
        for term in terms_of(text):
            if term not in own:
                weight = of_term * (taken.of_names if term in of_names else 1.0)
                terms[term] = max(terms.get(term, 0.0), round(weight, 4))
        for one in named:
            if one.entity not in own_names:
                known = names.get(one.entity, (0.0, one))
                weight = round(of_name * taken.of_names, 4)
                names[one.entity] = max(known, (weight, one), key=itemgetter(0))

    for antecedent, mention in taken.meant:
        add(antecedent.name, [mention] if mention else [], 1.0, 1.0)
    reads_names = query.mode != "global" and snapshot.has_names
    vectors = [query.unit_vector]
    for turn, one in taken.turns:
        among = snapshot.question_languages
        mentions = components.mentions_of(turn.text, among) if reads_names else ()
        role, weight = turn.role, one.weight
        add(turn.text, mentions, weight * _TERM_WEIGHTS[role], weight * _NAME_WEIGHTS[role])
        if role == "user":
            vectors.append(weight * components.vector_of(turn.text))
    best = sorted(names.values(), key=lambda item: -item[0])[:_MAX_NAMES]
    return replace(
        query,
        vector=mean_unit_vector(vectors),
        mentions=(*query.mentions, *(mention for _, mention in best)),
        carried=replace(
            carried,
            turns=tuple(one for _, one in taken.turns),
            names={mention.entity: weight for weight, mention in best},
            terms=terms,
            context=tuple(turn.text for turn, _ in reversed(taken.turns) if turn.role == "user"),
            antecedents=tuple(one for one, _ in taken.meant),
        ),
    )
