"""Written questions about a text as a whole, and similar ones about something particular.

They are in `questions.txt`, by kind. The test set, `tests/data/requests.jsonl`, was written
afterwards, and nothing was changed after it was measured.
"""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Iterator
from pathlib import Path

from e2graphrag_integrations.retrieval.request_kinds import KINDS, RequestKind

_CHOICE = re.compile(r"\(([^()]*)\)")

_PER_LINE = 40
"""Maximum number of questions of a line, drawn with a fixed seed."""


def written() -> list[tuple[str, RequestKind]]:
    """Return the questions and their kinds, in the order of the file.

    A line stands for all questions that result from choosing one of the words in each bracket, of
    which at most 12 are drawn.
    """
    found: dict[str, RequestKind] = {}
    kind: RequestKind = "other"
    draw = random.Random(0)  # noqa: S311 - no secret
    path = Path(__file__).with_name("questions.txt")
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            kind = KINDS[[f"[{one}]" for one in KINDS].index(line)]
        elif line and not line.startswith("#"):
            questions = list(_choices(line))
            chosen = draw.sample(questions, min(_PER_LINE, len(questions)))
            found |= dict.fromkeys(chosen, kind)
    return list(found.items())


def _choices(line: str) -> Iterator[str]:
    parts = _CHOICE.split(line)
    options = [part.split("|") if number % 2 else [part] for number, part in enumerate(parts)]
    for chosen in itertools.product(*options):
        yield " ".join("".join(chosen).split())
