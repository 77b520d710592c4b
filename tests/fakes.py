"""Fakes that many tests share, and helpers for damaged files, threads and permissions."""

from __future__ import annotations

import ctypes
import os
import re
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from e2graphrag_integrations import (
    E2GraphRAGError,
    HashingEmbedder,
    SourceDocument,
)
from e2graphrag_integrations.testing import CapitalizedWordExtractor, DigestLLM
from e2graphrag_integrations.types import NOUN, Mention

STORY = (
    "Anna met Bert in Oslo. Bert gave Anna a map of the harbour. Cleo watched from the bridge. "
    "Later Cleo followed Bert to Rome. Dora sold the map to Emil. Emil sailed from Oslo at night. "
    "Anna wrote to Dora about the map. Nobody ever saw Emil again."
)

NameExtractor = CapitalizedWordExtractor
CountingLLM = DigestLLM

_SENTENCE = re.compile(r"[^.]+[.]\s*")
_NAME = re.compile(r"[A-Z]\w*(?:\s[A-Z]\w*)*")
_COMMON_NOUN = re.compile(r"\b(time|thing|harbour)s?\b")

_MATERIAL = re.compile(r"The material is [^\n]*\n<material (\w+)>\n(.*)\n</material \1>", re.DOTALL)


def material_of(prompt: str) -> str:
    """Return the texts between the markers of a summary prompt."""
    found = _MATERIAL.search(prompt)
    assert found is not None
    return found.group(2)


def without_markers(prompt: str) -> str:
    """Return a summary prompt as versions before the markers wrote it."""
    return _MATERIAL.sub(lambda found: found.group(2), prompt)


class LineCounter:
    """Counts one token per line: with `chunk_size=1` every line is a chunk."""

    fingerprint = "fake:lines"

    def count(self, text: str) -> int:
        return len(self.spans(text))

    def spans(self, text: str) -> list[tuple[int, int]]:
        return [m.span() for m in re.finditer(r"[^\n]+", text)]


class AnonymousEmbedder:
    """Embeds letter counts; has no fingerprint."""

    max_tokens = None

    def __init__(self, dimension: int = 16, shift: int = 0) -> None:
        self.dimension = dimension
        self._shift = shift

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        vectors = np.ones((len(texts), self.dimension), dtype=np.float32)
        for row, text in zip(vectors, texts, strict=True):
            for character in text:
                row[(ord(character) + self._shift) % self.dimension] += 1
        return vectors

    def embed_query(self, text: str) -> np.ndarray:
        return self.embed([text])[0]


def numbered(count: int, document_id: str = "numbered", first: int = 0) -> SourceDocument:
    """Return a document of `count` sentences of four tokens: `count` chunks of size 4."""
    sentences = [f"Item {number} ends." for number in range(first, first + count)]
    return SourceDocument(document_id, " ".join(sentences))


def damage_file(file: Path, how: str) -> None:
    """Damage a file: make it "gone", "empty" or "short", or flip a bit ("flipped")."""
    content = file.read_bytes()
    middle = len(content) // 2
    flipped = content[:middle] + bytes([content[middle] ^ 4]) + content[middle + 1 :]
    file.write_bytes({"short": content[:middle], "flipped": flipped}.get(how, b""))
    if how == "gone":
        file.unlink()


class OldExtractor(NameExtractor):
    """Finds fewer names than `NameExtractor`: not those of one word that begins with B."""

    fingerprint = "fake:old"

    def extract(self, texts):
        return [
            [[one for one in sentence if not one.entity.startswith("B")] for sentence in sentences]
            for sentences in super().extract(texts)
        ]


class NamesAndNouns:
    """Finds sequences of capitalized words as names, and the lemmas of three common nouns."""

    fingerprint = "fake:names-and-nouns"

    def extract(self, texts):
        return [[list(self._mentions(one)) for one in _SENTENCE.finditer(text)] for text in texts]

    def _mentions(self, sentence):
        first = sentence.start()
        for name in _NAME.finditer(sentence.group()):
            yield Mention(name.group(), first + name.start(), first + name.end(), "PERSON")
        for noun in _COMMON_NOUN.finditer(sentence.group()):
            yield Mention(noun[1], first + noun.start(), first + noun.end(), NOUN)


class FailingExtractor(NameExtractor):
    """Must not be called."""

    def extract(self, texts):
        raise AssertionError(texts)


class FailingEmbedder(HashingEmbedder):
    """Must not be called."""

    def embed(self, texts):
        raise AssertionError(texts)

    embed_query = embed


class CountingExtractor(NameExtractor):
    """Records the texts that it receives."""

    def __init__(self):
        self.texts = []

    def extract(self, texts):
        self.texts.extend(texts)
        return super().extract(texts)


class CountingEmbedder(HashingEmbedder):
    """Records the texts that it receives."""

    def __init__(self):
        super().__init__()
        self.texts = []

    def embed(self, texts):
        self.texts.extend(texts)
        return super().embed(texts)


class Failing:
    """A summarizer that raises `error` `times` times after `at` successful calls."""

    fingerprint = "fake:failing"

    def __init__(self, error, at=0, times=1):
        self.llm = CountingLLM()
        self.error, self.left, self.at = error, times, at
        self.tries = 0
        self._lock = threading.Lock()

    def summarize(self, texts, *, level, max_tokens):
        with self._lock:
            self.tries += 1
            if self.llm.calls >= self.at and self.left:
                self.left -= 1
                raise self.error
        return self.llm(f"{level} {max_tokens} {texts}")


class BlockingLLM:
    """A summarizer that sets `started` and then waits for `release`."""

    def __init__(self) -> None:
        self.calls = 0
        self.started = threading.Event()
        self.release = threading.Event()

    def __call__(self, prompt: str) -> str:
        self.calls += 1
        self.started.set()
        self.release.wait(10)
        return f"Summary number {self.calls}."


def start_in_thread(work):
    """Run `work` in a thread; return the thread and a list that receives its result or error."""
    outcome: list[object] = []

    def run():
        try:
            outcome.append(work())
        except E2GraphRAGError as error:
            outcome.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, outcome


def run_without_override(work) -> str:
    """Run `work` in a forked child that obeys write permissions; return its result or error.

    The child of root keeps its right to read: another user may be unable to enter the folder of the
    package, and a module may be imported late.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            _drop_override()
            message = work()
        except BaseException as error:  # noqa: BLE001 - reported to the parent
            message = f"{type(error).__name__}: {error}"
        os.write(writer, message.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        message = pipe.read()
    os.waitpid(child, 0)
    return message


def _drop_override() -> None:
    """Give up the capability of root to write to files and folders that are read-only (Linux)."""
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)  # version 3 of the capabilities; this process
    capabilities = (ctypes.c_uint32 * 6)()  # effective, permitted and inheritable, in two halves
    if libc.capget(header, capabilities) == 0:
        for place in range(3):
            capabilities[place] &= ~(1 << 1)  # CAP_DAC_OVERRIDE
        if libc.capset(header, capabilities) == 0:
            return
    raise OSError(ctypes.get_errno(), "capabilities cannot be changed")
