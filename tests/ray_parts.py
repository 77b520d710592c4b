"""Components for the tests of the Ray engine; the workers import this module."""

from __future__ import annotations

import fcntl
import os
import signal
import time
from functools import partial
from pathlib import Path

from e2graphrag_integrations import HashingEmbedder
from e2graphrag_integrations.errors import MissingDependencyError

POISON = "curare"
WITHOUT_MODELS = "E2G_TEST_WITHOUT_MODELS"
"""Environment variable of a node that lacks the models."""


def append(path, line):
    """Append a line to a file that several processes write."""
    with Path(path).open("a", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(f"{line}\n")


def lines(path):
    return Path(path).read_text(encoding="utf-8").splitlines() if Path(path).exists() else []


class LoggedEmbedder(HashingEmbedder):
    """Logs the process of each call and the number of its texts.

    Args:
        folder: Receives the log.
        kills: Whether the first worker with a long batch kills its own process before it answers.
    """

    def __init__(self, folder, *, kills=False):
        super().__init__()
        self.folder = Path(folder)
        self.kills = kills

    def __reduce__(self):
        return partial(LoggedEmbedder, self.folder, kills=self.kills), ()

    def embed(self, texts):
        append(self.folder / "embed.log", f"{os.getpid()} {len(texts)}")
        if any(POISON in text for text in texts):
            raise ValueError("poisoned")
        marker = self.folder / "killed"
        if self.kills and not marker.exists():
            marker.write_text(str(os.getpid()), encoding="utf-8")
            os.kill(os.getpid(), signal.SIGKILL)
        return super().embed(texts)


class FatalEmbedder(HashingEmbedder):
    """Kills each process that embeds a certain text."""

    def embed(self, texts):
        if any(POISON in text for text in texts):
            os.kill(os.getpid(), signal.SIGKILL)
        return super().embed(texts)


class NeedsModel(HashingEmbedder):
    """Cannot be created on a node without models."""

    def __reduce__(self):
        return create_with_model, ()


def create_with_model():
    if WITHOUT_MODELS in os.environ:
        raise MissingDependencyError("the model 'tiny' is not installed: pip install tiny")
    return NeedsModel()


class LoggedLLM:
    """Stands for an LLM: answers with the first words, and logs when each call runs and where."""

    fingerprint = "logged-llm"
    uses_llm = True

    def __init__(self, log, api_key):
        self.log = log
        self.api_key = api_key

    def summarize(self, texts, *, level, max_tokens):
        started = time.monotonic()
        time.sleep(0.1)
        if any(POISON in text for text in texts):
            raise ValueError(f"the key {self.api_key} was refused")
        append(self.log, f"{os.getpid()} {started} {time.monotonic()}")
        return " ".join(" ".join(texts).split()[:20])
