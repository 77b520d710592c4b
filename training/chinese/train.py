"""Train the Chinese tagger that ships with the package.

    python training/chinese/train.py --data ../shared/data/treebanks \
        --out src/e2graphrag_integrations/models/zh_e2g_sm

training/README.md describes the required packages, the data and the experiments.
"""

from __future__ import annotations

import argparse
import copy
import json
import logging
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from lac import Lac, read_lac
from model import Tagger, write
from torch import Tensor, nn
from torch.nn.functional import kl_div

from data import LABELS, Name, Sentence, exchange, f1, read, tags_of
from e2graphrag_integrations.entities.chinese.tagger import ChineseTagger

LOG = logging.getLogger("train")
VERSION = "0.1.0"
FOLDER = "ner_uner_chinese_gsdsimp"


@dataclass(frozen=True)
class Settings:
    """Hyperparameters of a training run.

    Attributes:
        seed: Seed of all random numbers.
        epochs: Passes over the data.
        batch: Sentences per batch.
        rate: Maximum learning rate of the weights of LAC.
        new_rate: Maximum learning rate of the new layer.
        warmup: Fraction of the run in which the rates rise; then they fall to zero.
        dropout: Dropout of embeddings and states.
        exchanged: Share of the sentences in which names are exchanged.
        closeness: Weight of the loss that keeps the layer for words close to LAC.
        average: Decay of the running averages of the weights, which are the result.
    """

    seed: int = 0
    epochs: int = 8
    batch: int = 32
    rate: float = 1.2e-3
    new_rate: float = 3e-3
    warmup: float = 0.1
    dropout: float = 0.3
    exchanged: float = 0.6
    closeness: float = 0.3
    average: float = 0.998


@dataclass(frozen=True)
class Batch:
    """Sentences as tensors of shape (sentences, characters)."""

    rows: Tensor
    tags: Tensor
    mask: Tensor
    lengths: Tensor


def to_batch(sentences: Sequence[Sentence], lac: Lac) -> Batch:
    """Pad sentences to the length of the longest one."""
    lengths = torch.tensor([len(sentence.text) for sentence in sentences])
    shape = (len(sentences), int(lengths.max()))
    rows, tags, mask = (
        torch.zeros(shape, dtype=kind) for kind in (torch.long,) * 2 + (torch.float,)
    )
    unknown = len(lac.embedding) - 1
    for number, sentence in enumerate(sentences):
        own = [lac.rows.get(ord(character), unknown) for character in sentence.text]
        rows[number, : len(own)] = torch.tensor(own)
        tags[number, : len(own)] = torch.tensor(tags_of(sentence))
        mask[number, : len(own)] = 1
    return Batch(rows, tags, mask, lengths)


def draw(
    sentences: Sequence[Sentence], settings: Settings, rng: random.Random
) -> Iterator[list[Sentence]]:
    """Yield the batches of an epoch. Sentences of similar length share a batch."""
    pool = {
        label: [s.text[n.start : n.end] for s in sentences for n in s.names if n.label == label]
        for label in LABELS
    }
    drawn = [exchange(sentence, pool, rng, settings.exchanged) for sentence in sentences]
    rng.shuffle(drawn)
    size = settings.batch
    batches = []
    for start in range(0, len(drawn), 20 * size):
        block = sorted(drawn[start : start + 20 * size], key=lambda one: len(one.text))
        batches += [block[i : i + size] for i in range(0, len(block), size)]
    rng.shuffle(batches)
    yield from batches


def loss_of(model: Tagger, teacher: Tagger, batch: Batch, closeness: float) -> Tensor:
    """Return the loss of the names, and that of the words relative to LAC, per character."""
    states = model(batch.rows, batch.lengths)
    scores = model.names(model.dropout(states))
    characters = batch.mask.sum()
    names = model.field.loss(scores, batch.tags, batch.mask).sum() / characters
    with torch.no_grad():
        wanted = teacher.words(teacher(batch.rows, batch.lengths)).softmax(-1)
    distance = kl_div(model.words(states).log_softmax(-1), wanted, reduction="none").sum(-1)
    return 10 * names + closeness * (distance * batch.mask).sum() / characters


def train(lac: Lac, sentences: Sequence[Sentence], settings: Settings) -> Iterator[Tagger]:
    """Yield the averaged model after each epoch."""
    rng = random.Random(settings.seed)  # noqa: S311 - not for cryptography
    torch.manual_seed(settings.seed)
    model = Tagger(lac, settings.dropout)
    teacher, averaged = (copy.deepcopy(model).eval() for _ in range(2))
    new = [*model.names.parameters(), *model.field.parameters()]
    old = [p for p in model.parameters() if all(p is not other for other in new)]
    rates = (settings.rate, settings.new_rate)
    groups = [{"params": params} for params in (old, new)]
    optimizer = torch.optim.AdamW(groups, weight_decay=0.01)
    steps = settings.epochs * -(-len(sentences) // settings.batch)
    step = 0
    for epoch in range(settings.epochs):
        model.train()
        began, total = time.perf_counter(), 0.0
        for drawn in draw(sentences, settings, rng):
            done = step / steps
            scale = min((step + 1) / (settings.warmup * steps), max(0.02, 1 - done))
            for group, rate in zip(optimizer.param_groups, rates, strict=True):
                group["lr"] = rate * scale
            loss = loss_of(model, teacher, to_batch(drawn, lac), settings.closeness)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            kept = min(settings.average, (step + 1) / (step + 10))
            with torch.no_grad():
                for mean, own in zip(averaged.parameters(), model.parameters(), strict=True):
                    mean.lerp_(own, 1 - kept)
            total += loss.item()
            step += 1
        took = time.perf_counter() - began
        LOG.info("epoch %d, %.0f s, loss %.3f", epoch + 1, took, total * settings.epochs / steps)
        yield averaged


def score(folder: Path, sentences: Sequence[Sentence]) -> dict[str, float]:
    """Return the F1 of the written weights."""
    found = ChineseTagger.from_folder(folder).tag([sentence.text for sentence in sentences])
    return f1(sentences, [[Name(*name) for name in one.names] for one in found])


def main() -> None:
    """Train, write and score the tagger."""
    parser = argparse.ArgumentParser(description="Train the Chinese tagger.")
    parser.add_argument("--data", type=Path, required=True, help="the treebanks folder")
    parser.add_argument("--out", type=Path, required=True, help="folder of the model")
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    torch.set_num_threads(1)
    sets = {one: read(args.data / FOLDER / f"{one}.jsonl") for one in ("train", "dev", "test")}
    lac = read_lac()
    for model in train(lac, sets["train"], Settings()):
        write(model, lac, VERSION, args.out / "weights.npz")
        LOG.info("dev %s", score(args.out, sets["dev"]))
    scores = {split: score(args.out, sets[split]) for split in ("dev", "test")}
    print(json.dumps(scores, indent=2))


if __name__ == "__main__":
    main()
