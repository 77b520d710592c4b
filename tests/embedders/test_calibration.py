"""Relevance calibrated for an embedding model, and chosen by the model's fingerprint."""

from __future__ import annotations

import math

import pytest

from e2graphrag_integrations import (
    E2GraphRAG,
    HybridStrategy,
    Models,
    PaperStrategy,
    RelevanceCalibration,
    SourceDocument,
    clipped_cosine,
)
from e2graphrag_integrations.embedders.calibration import calibration_of
from e2graphrag_integrations.embedders.fingerprints import probe_fingerprint
from e2graphrag_integrations.errors import InvalidInputError

QUESTION = "How much does a blue whale weigh?"


class Wrapped:
    """A framework's class that loads the model and has no fingerprint."""

    max_tokens = None

    def __init__(self, model):
        self.model = model
        self.dimension = model.dimension

    def embed(self, texts):
        return self.model.embed(texts)

    def embed_query(self, text):
        return self.model.embed_query(text)


def test_a_calibration_rises_from_0_to_1_and_cannot_overflow():
    calibration = RelevanceCalibration(slope=5.0, intercept=-3.0)
    values = [calibration(n / 10) for n in range(-10, 11)]
    assert values == sorted(values)
    assert calibration(0.6) == 0.5
    assert 0 < values[0] < values[-1] < 1
    steep = RelevanceCalibration(slope=1e9, intercept=0)
    assert (steep(-1.0), steep(1.0)) == (0.0, 1.0)


@pytest.mark.parametrize(
    "options",
    [(0, 1), (-1, 1), (True, 1), (float("inf"), 1), (1, float("nan")), (1, "0"), ("5", 0)],
)
def test_numbers_of_a_calibration_are_checked(options):
    with pytest.raises(InvalidInputError, match=r"must be a finite (positive )?number"):
        RelevanceCalibration(*options)


@pytest.mark.parametrize("strategy", [HybridStrategy, PaperStrategy])
def test_a_calibration_is_a_function(strategy):
    with pytest.raises(InvalidInputError, match=r"relevance_calibration=0.5 must be a function"):
        strategy(relevance_calibration=0.5)


@pytest.mark.parametrize("strategy", [HybridStrategy, PaperStrategy])
@pytest.mark.parametrize("calibration", [lambda _: 1 / 0, lambda _: "high", lambda _: math.nan])
def test_a_calibration_that_fails_raises_a_typed_error(open_index, story, strategy, calibration):
    rag = open_index(strategy=strategy(relevance_calibration=calibration))
    rag.add(story)
    with pytest.raises(InvalidInputError, match=r"relevance_calibration (failed|returned nan) for"):
        rag.retrieve("Who sold the map?", mode="global")


@pytest.mark.parametrize("fingerprint", [None, "hashing:1:256:None", "probe:AAAA"])
def test_an_unknown_embedder_has_its_clipped_cosine(fingerprint):
    assert calibration_of(fingerprint) is clipped_cosine
    assert [clipped_cosine(cosine) for cosine in (-0.5, 0.25, 1.0001)] == [0.0, 0.25, 1.0]


def test_minilm_is_known_by_its_name_and_by_its_vectors(real_embedder):
    by_name = calibration_of(real_embedder.fingerprint)
    assert isinstance(by_name, RelevanceCalibration)
    assert calibration_of(probe_fingerprint(real_embedder)) == by_name


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("wrap", [lambda model: model, Wrapped], ids=["named", "probed"])
def test_an_index_with_minilm_has_calibrated_relevance(real_embedder, real_extractor, wrap):
    with E2GraphRAG.open(
        ":memory:", embedder=wrap(real_embedder), models=Models(extractor=real_extractor)
    ) as rag:
        rag.add(SourceDocument("whale", "Blue whales weigh up to 150 tonnes."))
        [node] = rag.retrieve(QUESTION).nodes
        plain = HybridStrategy(relevance_calibration=clipped_cosine)
        [same] = rag.retrieve(QUESTION, strategy=plain).nodes
    calibration = calibration_of(real_embedder.fingerprint)
    assert node.relevance == pytest.approx(calibration(same.relevance), abs=1e-6)
    assert node.relevance < same.relevance
    assert node.score == same.score
