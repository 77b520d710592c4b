"""Texts, options and fakes for the tests of the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from typer.main import get_command

from e2graphrag_integrations import E2GraphRAG, HashingEmbedder
from e2graphrag_integrations.cli.main import app

TEA_PARTY = (
    "Alice met the Hatter in the garden. The Hatter gave Alice a cup of tea. "
    "Alice thanked the Hatter and walked to the river.\n\n"
    "The Queen of Hearts lived in a castle. The Queen played croquet with the King. "
    "Nobody in the castle had ever seen the sea.\n\n"
    "Far away a ship crossed the ocean. Its captain looked for an island of gold."
)
SMALL_CHUNKS = ["--embedder", "hashing", "--chunk-size", "25", "--chunk-overlap", "5"]


ALICE = (
    "Alice met the Hatter in the garden. The Hatter gave Alice a cup of tea. "
    "Alice thanked the Hatter and walked to the river. The river was wide and cold. "
    "A boat with the Walrus came by. The Walrus sang of cabbages and kings."
)
QUEEN = "The Queen of Hearts lived in a castle. The Queen played croquet with the King."
SHIP = "A ship crossed the ocean. Its captain looked for an island of gold."


class Result(NamedTuple):
    """Exit code and output of a command."""

    code: int
    out: str
    err: str

    def json(self, code: int = 0) -> dict[str, Any]:
        """Check the exit code and parse the output."""
        assert self.code == code, self
        value: dict[str, Any] = json.loads(self.out)
        return value


def all_commands() -> dict[str, Any]:
    """Return the commands by their names after the program, such as `query` or `entities list`."""
    commands = {}
    for name, one in get_command(app).commands.items():
        inner = getattr(one, "commands", None)
        commands |= {name: one} if inner is None else {f"{name} {k}": v for k, v in inner.items()}
    return commands


class FakeSummarizer:
    """Stands in for a language model; rejects prompts that contain a forbidden word."""

    fingerprint = "fake:model"
    forbidden = "Jabberwock"

    def __init__(self) -> None:
        self.calls = 0
        self.rejects = True

    def summarize(self, texts, *, level, max_tokens):
        self.calls += 1
        if self.rejects and any(self.forbidden in text for text in texts):
            raise ValueError("content filter")
        return f"Summary of {len(texts)} texts, {sum(map(len, texts))} letters, level {level}."


class FakeDefaultEmbedder(HashingEmbedder):
    """Replaces the default embedder where a test does not depend on its vectors."""

    def __init__(self, _model: str | None = None) -> None:
        super().__init__(32)


FORBIDDEN = f"Beware the {FakeSummarizer.forbidden}, my son."


def write_texts(folder: Path) -> Path:
    """Write three files into a new folder, one of them into a subfolder."""
    (folder / "sub").mkdir(parents=True)
    (folder / "alice.txt").write_text(ALICE)
    (folder / "queen.md").write_text(QUEEN)
    (folder / "sub" / "ship.txt").write_text(SHIP)
    return folder


def edit_texts(folder: Path) -> None:
    """Change one of the files, add one and remove one."""
    (folder / "alice.txt").write_text(ALICE + " The Dodo told the time.")
    (folder / "new.txt").write_text("Bill the Lizard lost his slate.")
    (folder / "queen.md").unlink()


def document_ids(index: Path) -> list[str]:
    """Return the ids of the documents of an index, which must be sound."""
    with E2GraphRAG.open(index) as rag:
        assert rag.verify().ok
        return rag.document_ids


def metadata_of(index: Path) -> dict[str, Any]:
    """Return the metadata of the documents of an index by their ids."""
    with E2GraphRAG.open(index) as rag:
        return {id_: dict(rag.document(id_).metadata) for id_ in rag.document_ids}
