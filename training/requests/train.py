r"""Train the classifier of requests (`retrieval/request_kinds.py`) and write its weights.

    python training/requests/train.py --data ../shared/data

Its examples are `questions.txt` and, as questions about something particular, the dev halves of the
sets of questions. `--measure` prints precision and recall on `tests/data/requests.jsonl` and on the
report halves, and changes nothing.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from pathlib import Path

import numpy as np
from questions import written
from scipy.optimize import minimize

from e2graphrag_integrations.protocols import FloatArray
from e2graphrag_integrations.retrieval import request_kinds
from e2graphrag_integrations.retrieval.request_kinds import (
    KINDS,
    RequestKind,
    RequestModel,
    features_of,
    request_model,
)

ROOT = Path(__file__).parents[2]
WEIGHTS = Path(request_kinds.__file__).with_name("request_weights.json")
HELD_OUT = ROOT / "tests" / "data" / "requests.jsonl"

_L2 = 5e-5
"""Weight of the squares of the weights beside the mean log loss."""

_STEPS = 300
_MIN_COUNT = 3
"""Minimum number of examples with a feature that has weights."""

_LEAST = 0.85
"""Least probability of an overview or an ending."""

_WHOLE = ("general",)
"""Types of questions in the sets that are about a text as a whole, which are left out."""

Example = tuple[str, RequestKind]


def of_sets(data: Path, half: int) -> list[tuple[str, str]]:
    """Return the sets and texts of the questions about something particular in one half."""
    found = []
    for path in sorted(data.glob("*/questions.jsonl")):
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        found += [
            (path.parent.name, row["question"])
            for row in rows[half::2]
            if row["question"].strip() and row.get("type") not in _WHOLE
        ]
    return found


def examples(data: Path) -> list[Example]:
    """Return the questions to learn from, and their kinds."""
    return [*written(), *((text, "other") for _, text in of_sets(data, 0))]


def train(known: list[Example]) -> RequestModel:
    """Return the model of the least regularized log loss, by gradient descent."""
    read = [features_of(text) for text, _ in known]
    counts = Counter(feature for one in read for feature in one)
    names = sorted(feature for feature, count in counts.items() if count >= _MIN_COUNT)
    place = {name: number for number, name in enumerate(names)}
    x = np.zeros((len(known), len(names)))
    for row, one in enumerate(read):
        for feature, value in one.items():
            if feature in place:
                x[row, place[feature]] = value
    y = np.asarray([[float(kind == one) for one in KINDS] for _, kind in known])

    def loss(flat: FloatArray) -> tuple[float, FloatArray]:
        values = flat.reshape(-1, len(KINDS))
        sums = x @ values[1:] + values[0]
        sums -= sums.max(axis=1, keepdims=True)
        logs = sums - np.log(np.exp(sums).sum(axis=1, keepdims=True))
        error = (np.exp(logs) - y) / len(known)
        gradient = np.vstack([error.sum(axis=0), x.T @ error + _L2 * values[1:]])
        penalty = _L2 / 2 * float((values[1:] ** 2).sum())
        return penalty - float((logs * y).sum()) / len(known), gradient.ravel()

    start = np.zeros((len(names) + 1) * len(KINDS))
    found = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": _STEPS})
    bias, weights = (part for part in np.split(found.x.reshape(-1, len(KINDS)), [1]))
    kept = {name: np.round(weights[place[name]], 3).tolist() for name in names}
    return RequestModel(kept, np.round(bias[0], 3).tolist(), _LEAST)


def measure(model: RequestModel, data: Path) -> None:
    """Print the confusions on the held-out questions, and the false positives of the sets."""
    rows = [json.loads(line) for line in HELD_OUT.read_text(encoding="utf-8").splitlines()]
    for language in ("en", "zh"):
        own = [row for row in rows if row["language"] == language]
        for kind in KINDS[:2]:
            said = [row for row in own if model.kind_of(row["question"]) == kind]
            right = [row for row in said if row["kind"] == kind]
            all_of = [row for row in own if row["kind"] == kind]
            print(
                f"{language} {kind}: precision {len(right)}/{len(said)}, "
                f"recall {len(right)}/{len(all_of)}"
            )
    for row in rows:
        said_kind = model.kind_of(row["question"])
        if said_kind != row["kind"]:
            shares = [round(one, 2) for one in model.probabilities(row["question"])]
            print(f"  {row['kind']} -> {said_kind} {shares}: {row['question']}")
    for half, name in ((0, "dev"), (1, "report")):
        texts = of_sets(data, half)
        wrong = [(of, text) for of, text in texts if model.kind_of(text) != "other"]
        print(f"{name} halves: {len(wrong)} of {len(texts)} questions")
        for of, text in wrong:
            print(f"  {of}, {model.kind_of(text)}: {text}")


def main() -> None:
    """Train, or measure the weights of the package."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--measure", action="store_true")
    options = parser.parse_args()
    if options.measure:
        measure(request_model(), options.data)
        return
    known = examples(options.data)
    model = train(known)
    wrong = [(text, kind) for text, kind in known if model.kind_of(text) != kind]
    counts = Counter(kind for _, kind in known)
    print(f"{len(known)} examples, {dict(counts)}, {len(model.weights)} features")
    print(f"{len(wrong)} not as labelled")
    for text, kind in wrong[:40]:
        print(f"  {kind} {[round(one, 2) for one in model.probabilities(text)]}: {text}")
    head = {"bias": model.bias, "least": model.least}
    lines = [
        json.dumps({name: one}, ensure_ascii=False)[1:-1] for name, one in model.weights.items()
    ]
    text = json.dumps(head)[:-1] + ', "weights": {\n' + ",\n".join(lines) + "\n}}\n"
    WEIGHTS.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
