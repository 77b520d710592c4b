"""The training loop of the tagger and the entity recognizer."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from spacy.language import Language
from spacy.training import Example
from thinc.api import Adam, Optimizer

LOG = logging.getLogger("train")


@dataclass(frozen=True)
class Plan:
    """Hyperparameters of a training run.

    Attributes:
        epochs: Passes over the data.
        dropout: Dropout rate.
        learn_rate: Maximum learning rate.
        warmup: Fraction of the run in which the learning rate rises.
        first_batch: Tokens per batch at the start.
        last_batch: Tokens per batch at the end.
        score_every: Epochs between scores.
    """

    epochs: int = 12
    dropout: float = 0.15
    learn_rate: float = 0.0015
    warmup: float = 0.05
    first_batch: int = 400
    last_batch: int = 1500
    score_every: int = 3


def batches(examples: Sequence[Example], words: Callable[[], float]) -> Iterator[list[Example]]:
    """Group examples into batches of about `words()` tokens."""
    batch: list[Example] = []
    size = 0
    for example in examples:
        batch.append(example)
        size += len(example.reference)
        if size >= words():
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def train(
    nlp: Language,
    draw: Callable[[], list[Example]],
    score: Callable[[Language], dict[str, float]],
    plan: Plan,
) -> dict[str, float]:
    """Train all components on the examples that `draw` returns for each epoch.

    The learning rate rises linearly during the warm-up, then falls linearly to zero. The trained
    model has the running averages of the weights.

    Returns:
        The scores after the last epoch.
    """
    optimizer = Adam(plan.learn_rate, L2=0.01, grad_clip=1.0, L2_is_weight_decay=True)
    optimizer.averages = {}
    first = draw()
    nlp.initialize(lambda: first)
    scores: dict[str, float] = {}
    done, began = 0.0, time.perf_counter()

    def words() -> float:
        return plan.first_batch + (plan.last_batch - plan.first_batch) * done

    for epoch in range(plan.epochs):
        examples = first if epoch == 0 else draw()
        total = sum(len(e.reference) for e in examples)
        losses: dict[str, float] = {}
        trained = 0
        for batch in batches(examples, words):
            done = (epoch + trained / total) / plan.epochs
            rise = min(1.0, (done + 1e-4) / plan.warmup)
            optimizer.learn_rate = plan.learn_rate * min(rise, 1.0 - done)
            nlp.update(batch, sgd=optimizer, drop=plan.dropout, losses=losses)
            trained += sum(len(e.reference) for e in batch)
        if (epoch + 1) % plan.score_every == 0 or epoch == plan.epochs - 1:
            with nlp.use_params(optimizer.averages):
                scores = score(nlp)
        took = time.perf_counter() - began
        rounded = {key: round(value, 4) for key, value in scores.items()}
        LOG.info("epoch %d, %.0f s, %s, %s", epoch + 1, took, rounded, losses)
    _keep_averages(nlp, optimizer)
    return scores


def _keep_averages(nlp: Language, optimizer: Optimizer) -> None:
    """Replace the weights of the models with their averages."""
    averages = optimizer.averages or {}
    for _, pipe in nlp.pipeline:
        for node in pipe.model.walk() if hasattr(pipe, "model") else []:
            for name in node.param_names:
                key = (node.id, name)
                if node.has_param(name) and key in averages:
                    node.set_param(name, averages[key])
