r"""Fit the relevance of hits to gold labels, and measure its reliability.

From the repository's root, after `make bench-quality` has built the indexes:

    python benchmarks/calibrate.py --data ../shared/data --out benchmarks/results/calibration.json
    python benchmarks/calibrate.py --data ../shared/data --embedder e5 --out e5.json

The relevance of a hit is the probability that it is evidence for the answer, given the cosine
between the question and its best window. It is fitted on the first ten hits of the dev halves,
where all sets weigh the same, and measured on the report halves, also for a fit without the
measured set. `--ship` writes the fit to the package, for all indexes with this embedder.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from e2graphrag_integrations import RelevanceCalibration, clipped_cosine
from e2graphrag_integrations.embedders.calibration import CALIBRATIONS
from e2graphrag_integrations.embedders.fingerprints import embedder_fingerprint, probe_fingerprint
from quality_bench.calibration import (
    Hits,
    calibration_table,
    cutoffs,
    fit,
    hits,
    reliability,
)
from quality_bench.corpora import corpora
from quality_bench.embedders import DEFAULT, EMBEDDERS, MULTILINGUAL
from runs import parser_of, this_run, write_result

SETS = {
    DEFAULT: dict.fromkeys(
        ("hotpotqa-text", "lihuaworld-text", "multihop_rag_facts-text", "qmsum"), 1
    ),
    MULTILINGUAL: {
        "hotpotqa-text": 3,
        "multihop_rag_facts-text": 2,
        "lihuaworld": 2,
        "zh_rgb": 1,
        "zh_cmrc2018": 10,
    },
}
"""Sets of different kinds for each embedder: linked pages, news, chats, meetings, an encyclopedia.

Of each set, every n-th question is used."""

CUTOFFS = (0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5)


def main() -> None:
    parser = parser_of(__doc__, "data", "out")
    parser.add_argument("--sets", help="comma-separated; those of the embedder by default")
    parser.add_argument("--embedder", choices=tuple(EMBEDDERS), default=DEFAULT)
    parser.add_argument("--k", type=int, default=10, help="number of hits of each question")
    parser.add_argument("--ship", action="store_true", help="write the fit to the package")
    options = parser.parse_args()
    dev: dict[str, Hits] = {}
    report: dict[str, Hits] = {}
    own = SETS[options.embedder]
    sets = options.sets.split(",") if options.sets else list(own)
    for corpus in corpora(options.data, sets, options.embedder):
        every = own.get(corpus.label, 1)
        dev[corpus.label] = hits(corpus, "dev", options.k, every)
        report[corpus.label] = hits(corpus, "report", options.k, every)
        print(corpus.label, len(dev[corpus.label].gold), flush=True)
    calibration = fit(list(dev.values()))
    result = {
        **this_run(),
        "embedder": EMBEDDERS[options.embedder][0],
        "k": options.k,
        "calibration": asdict(calibration),
        "sets": {label: measured(label, dev, one, calibration) for label, one in report.items()},
        "cutoffs": cutoffs(report, calibration, CUTOFFS),
    }
    write_result(result, options.out)
    print(calibration, calibration_table(result), sep="\n")
    if options.ship:
        ship(options.embedder, calibration)


def measured(
    label: str, dev: dict[str, Hits], report: Hits, calibration: RelevanceCalibration
) -> dict[str, Any]:
    """Return the reliability on a set, also of a fit on the other sets."""
    others = [one for other, one in dev.items() if other != label]
    without = fit(others) if others else calibration
    mappings = {"cosine": clipped_cosine, "calibrated": calibration, "left out": without}
    return reliability(report, mappings) | {"fit without this set": asdict(without)}


def ship(name: str, calibration: RelevanceCalibration) -> None:
    """Write the calibration of an embedder to the package, in place of an older one."""
    model, create = EMBEDDERS[name]
    embedder = create()
    known = [
        one for one in json.loads(CALIBRATIONS.read_text(encoding="utf-8")) if one["model"] != model
    ]
    fingerprints = [embedder_fingerprint(embedder), probe_fingerprint(embedder)]
    known.append(
        {
            "model": model,
            **asdict(calibration),
            "fingerprints": list(dict.fromkeys(fingerprints)),
        }
    )
    CALIBRATIONS.write_text(json.dumps(known, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
