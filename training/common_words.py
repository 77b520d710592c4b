"""Write the list of common English words, which single words of a question are compared with.

    python training/common_words.py ../shared/data

A word is common if texts in several places write it in lower case, and more often so than with a
capital. The places are parts of public-domain novels, and the documents of UD English EWT, from
which the bundled pipeline was trained as well.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

OUT = Path(__file__).parents[1] / "src/e2graphrag_integrations/text/common_words.txt"

_PLACE = 50_000
"""Characters of a place."""

_MIN_PLACES = 6
_MIN_LOWER = 0.5
_WORD = re.compile(r"[A-Za-z]{2,}")


def main() -> None:
    """Count the words and write the list."""
    lower, places, capital = Counter[str](), Counter[str](), Counter[str]()
    for text in _places(Path(sys.argv[1])):
        words = _WORD.findall(text)
        own = [word for word in words if word.islower()]
        lower.update(own)
        places.update(set(own))
        capital.update(word.lower() for word in words if not word.islower())
    common = sorted(
        word
        for word, count in places.items()
        if count >= _MIN_PLACES and lower[word] >= _MIN_LOWER * (lower[word] + capital[word])
    )
    OUT.write_text("\n".join(common) + "\n", encoding="utf-8")
    print(len(common), "words")


def _places(data: Path) -> Iterator[str]:
    texts = [path.read_text(encoding="utf-8") for path in sorted((data / "novels").glob("*.txt"))]
    with (data / "graphrag_bench_novel/corpus.jsonl").open(encoding="utf-8") as file:
        texts += [json.loads(line)["text"] for line in file]
    for path in sorted((data / "treebanks/ud_english_ewt").rglob("*.conllu")):
        rows = path.read_text(encoding="utf-8").splitlines()
        texts.append(" ".join(row.split("\t")[1] for row in rows if row[:1].isdigit()))
    for text in texts:
        for start in range(0, len(text), _PLACE):
            yield text[start : start + _PLACE]


if __name__ == "__main__":
    main()
