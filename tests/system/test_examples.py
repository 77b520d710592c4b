"""Every example runs as its docstring says, prints what it promises, and needs no network."""

from __future__ import annotations

import importlib.util
import os
import re
import runpy
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from no_network import NO_NETWORK
from vector_cache import VectorCache

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
NOVEL = (EXAMPLES / "data" / "the_time_machine.txt").read_text(encoding="utf-8")

RunExample = Callable[[str], str]

# As for a user, third-party warnings are not errors; Qdrant's local mode issues some.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]


def is_installed(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:  # the parent package is missing
        return False


def needs(package: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(not is_installed(package), reason=f"{package} is not installed")


needs_llama_index = needs("llama_index.core")
needs_langchain = needs("langchain_core")
needs_langgraph = needs("langchain.agents")
needs_classic = needs("langchain_classic.chains")


@pytest.fixture
def run_example(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], vector_cache: VectorCache
) -> RunExample:
    """Run an example as `__main__` in this process, without network; return its output.

    Running in one process shares the imports of PyTorch, spaCy and the frameworks.
    """
    attempts: list[tuple[object, ...]] = []

    def refuse(*arguments: object, **_: object) -> None:
        attempts.append(arguments)
        raise OSError(f"no network in tests: {arguments}")

    def run(name: str) -> str:
        monkeypatch.chdir(ROOT)
        monkeypatch.syspath_prepend(EXAMPLES)
        for variable in [name for name in os.environ if name.startswith("OPENAI_")]:
            monkeypatch.delenv(variable)
        monkeypatch.setattr(socket.socket, "connect", refuse)
        monkeypatch.setattr(socket.socket, "connect_ex", refuse)
        monkeypatch.setattr(socket, "getaddrinfo", refuse)
        if name.startswith("llama_index_"):
            from llama_index.core.instrumentation import get_dispatcher

            monkeypatch.setattr(get_dispatcher(), "event_handlers", [])
        capsys.readouterr()
        with vector_cache.in_use():
            runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
        assert attempts == []
        return capsys.readouterr().out

    return run


@pytest.fixture
def run_as_user(tmp_path: Path) -> RunExample:
    """Run an example in a subprocess from the root, without network; return its output."""

    def run(name: str) -> str:
        (tmp_path / "sitecustomize.py").write_text(NO_NETWORK, encoding="utf-8")
        attempts = tmp_path / "attempts"
        environment = {k: v for k, v in os.environ.items() if not k.startswith("OPENAI_")}
        environment |= {
            "PYTHONPATH": str(tmp_path),
            "NETWORK_ATTEMPTS": str(attempts),
            "PYTHONIOENCODING": "utf-8",
        }
        done = subprocess.run(
            [sys.executable, f"examples/{name}.py"],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            encoding="utf-8",
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert not attempts.exists(), attempts.read_text(encoding="utf-8")
        return done.stdout

    return run


def test_network_guard_refuses_and_records_a_connection(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(NO_NETWORK, encoding="utf-8")
    code = "import socket; socket.create_connection(('127.0.0.1', 9), 1)"
    environment = {"PYTHONPATH": str(tmp_path), "NETWORK_ATTEMPTS": str(tmp_path / "attempts")}
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | environment, capture_output=True, check=False
    )
    assert done.returncode == 1
    assert b"no network in tests" in done.stderr
    assert (tmp_path / "attempts").exists()


def quote_and_label(answer: str) -> tuple[str, str]:
    """Return the sentence that the stand-in quotes and the label of the passage that it cites."""
    cited = re.fullmatch(r"(.+) \[([\d-]+)\]", answer)
    assert cited, answer
    return cited[1], cited[2]


def passage(start: str, end: str) -> str:
    """Return a span of the novel with single spaces."""
    return " ".join(NOVEL[int(start) : int(end)].split())


# LlamaIndex


@needs_llama_index
def test_llama_index_query_engine_cites_spans_of_the_novel_with_route_and_reasons(run_example):
    answers = run_example("llama_index_query_engine").split("\n=== ")[1:]
    assert [re.search(r"^route: (\w+)", a, re.MULTILINE)[1] for a in answers] == ["local", "local"]
    for answer in answers:
        quote, label = quote_and_label(answer.splitlines()[1])
        sources = re.findall(
            r"^\[(\d)\] (\w+) of the_time_machine\.txt, characters (\d+)-(\d+)\n"
            r"    because: \w+.*\n    (.+)\.\.\.$",
            answer,
            re.MULTILINE,
        )
        assert label in [number for number, *_ in sources]
        for number, kind, start, end, excerpt in sources:
            if kind == "chunk":
                assert repr(NOVEL[int(start) : int(end)][:80]) == excerpt
                assert number != label or quote in passage(start, end)


@needs_llama_index
def test_llama_index_agent_calls_the_tool_once_and_answers_from_the_novel(run_example):
    printed = run_example("llama_index_agent")
    assert re.findall(r"^tool call: (.*)$", printed, re.MULTILINE) == [
        "novel({'input': 'What did the Psychologist do with the lever?'})"
    ]
    assert re.search(r"^  source: the_time_machine\.txt, characters \d+-\d+", printed, re.MULTILINE)
    answer = re.search(r"^answer: (.+)$", printed, re.MULTILINE)[1]
    assert answer in " ".join(NOVEL.split())


@needs_llama_index
def test_llama_index_conversation_goes_on_after_a_restart_and_cites_passages(run_example):
    printed = run_example("llama_index_conversation")
    first, second = re.findall(r"^=== (.+)$", printed, re.MULTILINE)
    assert re.findall(r"^tool call: (.+)$", printed, re.MULTILINE) == [
        f"search({{'question': '{first}'}})",
        f"search({{'question': '{first} {second}'}})",  # the first turn is remembered
    ]
    answers = re.findall(
        r"^answer: (.+) \[the_time_machine\.txt, characters (\d+)-(\d+)\]$", printed, re.MULTILINE
    )
    assert len(answers) == 2
    for answer, start, end in answers:
        assert answer in passage(start, end)


@needs_llama_index
def test_llama_index_ingestion_processes_only_the_changed_document(run_as_user):
    printed = run_as_user("llama_index_ingestion")
    runs = re.findall(
        r"^(.+): processed (.+)\n  the index has (.+); (\d+) of", printed, re.MULTILINE
    )
    assert [(step, processed, int(mentions)) for step, processed, _, mentions in runs] == [
        ("first run", "chapter-1, chapter-2, chapter-3", 1),
        ("run again", "nothing", 1),
        ("chapter 2 changed", "chapter-2", 0),
        ("chapter 3 refreshed", "chapter-3", 1),
    ]
    assert runs[0][2] == runs[1][2]
    for _, _, counts, _ in runs:
        assert counts.startswith("3 documents, ")


@needs_llama_index
def test_llama_index_qdrant_reopens_and_filters_on_both_routes(run_example):
    printed = run_example("llama_index_qdrant")
    has_qdrant = is_installed("llama_index.vector_stores.qdrant")
    [count] = re.findall(r"^3 documents, ([1-9]\d+) vectors$", printed, re.MULTILINE)
    assert (f"\n{count} vectors in Qdrant\n" in printed) == has_qdrant
    answers = {
        heading: [int(number) for number in re.findall(r"^  chapter (\d),", hits, re.MULTILINE)]
        for heading, hits in re.findall(r"^(.+?, \w+): .+\n((?:  .+\n)+)", printed, re.MULTILINE)
    }
    assert set(answers) == {
        f"{scope}, {mode}"
        for scope in ("all chapters", "from chapter 2")
        for mode in ("adaptive", "global")
    }
    assert 1 in answers["all chapters, global"]
    for mode in ("adaptive", "global"):
        assert min(answers[f"from chapter 2, {mode}"]) > 1


@needs_llama_index
def test_llama_index_shared_index_shows_each_team_what_was_written(run_example):
    printed = run_example("llama_index_shared_index")
    lines = re.findall(r"^(\w+), team (\d): (.+) from (\w+)$", printed, re.MULTILINE)
    assert [(step, team, source) for step, team, _, source in lines] == [
        ("first", "1", "paris"),
        ("first", "2", "rome"),
        ("later", "1", "paris"),
        ("later", "2", "oslo"),
    ]


# LangChain


@needs_langchain
def test_langchain_chain_cites_spans_of_the_novel_with_route_and_reasons(run_example):
    answers = run_example("langchain_chain").split("\n=== ")[1:]
    assert len(answers) == 2
    for answer in answers:
        assert re.search(r"^found by: \w+$", answer, re.MULTILINE)
        assert re.search(r"entities: rank \d", answer)  # both questions name Filby
        quote, label = quote_and_label(answer.splitlines()[1])
        passages = re.findall(
            r"^\[(\d)\] (\w+) of the_time_machine\.txt, characters (\d+)-(\d+)\n"
            r"    (.+)\n    (.+)\.\.\.$",
            answer,
            re.MULTILINE,
        )
        assert [number for number, *_ in passages] == ["1", "2", "3"]
        for number, kind, start, end, reasons, excerpt in passages:
            assert reasons
            if kind == "chunk":
                assert repr(NOVEL[int(start) : int(end)][:80]) == excerpt
                assert number != label or quote in passage(start, end)


@needs_langgraph
def test_langchain_agent_remembers_the_first_turn_and_cites_passages_in_both(run_example):
    printed = run_example("langchain_agent")
    first, second = re.findall(r"^=== (.+)$", printed, re.MULTILINE)
    assert re.findall(r"^tool call: (.+)$", printed, re.MULTILINE) == [
        f"search_corpus({{'query': '{first}'}})",
        f"search_corpus({{'query': '{first} {second}'}})",
    ]
    answers = re.findall(
        r"^answer: (.+)\n  \[(\d)\] the_time_machine\.txt, characters (\d+)-(\d+)$",
        printed,
        re.MULTILINE,
    )
    assert len(answers) == 2
    for answer, number, start, end in answers:
        quote, label = quote_and_label(answer)
        assert label == number
        assert quote in passage(start, end)


@needs("deepagents")
def test_deep_agent_searches_in_both_turns_and_quotes_the_novel(run_example):
    printed = run_example("deep_agents")
    first, second = re.findall(r"^=== (.+)$", printed, re.MULTILINE)
    calls = re.findall(r"^tool call: search\((.+)\)$", printed, re.MULTILINE)
    assert [first in calls[0], f"{first} {second}" in calls[1], len(calls)] == [True, True, 2]
    answers = re.findall(r"^answer: (.+)$", printed, re.MULTILINE)
    assert len(answers) == 2
    novel = " ".join(NOVEL.split())
    for answer in answers:
        assert quote_and_label(answer)[0] in novel


def test_facts_in_time_shows_the_version_of_each_date(run_example):
    parts = run_example("facts_in_time").split("\n=== ")[1:]
    first = {part.split("\n")[0]: part.split("\n")[1].split(":")[0] for part in parts}
    assert first == {
        "2020-06-01": "timetable-2019",
        "2022": "timetable-2021-04",
        "newest": "timetable-2024",
    }
    assert parts[2].count("(superseded by timetable-2024)") == 2


@needs_classic
def test_langchain_history_resolves_a_pronoun_from_the_previous_turn(run_example):
    answers = run_example("langchain_history").split("\n=== ")[1:]
    assert len(answers) == 2
    for answer in answers:
        quote, label = quote_and_label(answer.splitlines()[1])
        spans = re.findall(r"of the_time_machine\.txt, characters (\d+-\d+)$", answer, re.MULTILINE)
        assert label in spans
        assert quote in passage(*label.split("-"))
    question, answer = answers[1].splitlines()[:2]
    assert "Filby" not in question
    assert "Filby" in passage(*quote_and_label(answer)[1].split("-"))


@needs_langchain
def test_langchain_indexing_pays_only_for_the_edited_page(run_example):
    printed = run_example("langchain_indexing")
    runs = re.findall(
        r"^(.+): pages (\d+) added, 0 updated, (\d+) skipped, (\d+) deleted\n"
        r"  LLM calls: (\d+) estimated, (\d+) made\n"
        r"  written: (\d+) chunks, (\d+) summaries\n"
        r"  the index has (\d+) pages$",
        printed,
        re.MULTILINE,
    )
    assert [(step, *map(int, counts[:3]), int(counts[-1])) for step, *counts in runs] == [
        ("first run", 10, 0, 0, 10),
        ("run again", 0, 10, 0, 10),
        ("page 6 edited", 1, 9, 1, 10),
        ("last page gone", 0, 9, 1, 9),
    ]
    assert [estimated for *_, estimated, _, _, _, _ in runs] == [made for *_, made, _, _, _ in runs]
    first, again, edited, shorter = [int(made) for *_, made, _, _, _ in runs]
    summaries = int(runs[0][-2])
    assert first == summaries > 2
    assert again == 0
    assert 1 <= edited < summaries
    assert shorter < summaries
    assert printed.splitlines()[-1] == "Weena was not there."


def assert_quotes_the_oath(printed: str) -> None:
    """Check the answers of the Chinese examples and the spans of their sources."""
    answers = printed.split("\n=== ")[1:]
    assert len(answers) == 2
    novel = (EXAMPLES / "data" / "sanguo_yanyi.txt").read_text(encoding="utf-8")
    oath = novel.index("虽然异姓，既结为兄弟")
    spans = re.findall(r"characters (\d+)-(\d+)", answers[0])
    assert any(int(start) <= oath < int(end) for start, end in spans)
    for answer in answers:
        quote = re.sub(r" \[\d+\]$", "", answer.splitlines()[1])
        assert "".join(quote.split()) in "".join(novel.split())
        assert "found by: " in answer or "route: " in answer


@needs_llama_index
def test_llama_index_answers_in_chinese(run_example):
    assert_quotes_the_oath(run_example("llama_index_chinese"))


@needs_langchain
def test_langchain_answers_in_chinese(run_example):
    assert_quotes_the_oath(run_example("langchain_chinese"))


def test_every_example_has_a_test():
    source = Path(__file__).read_text(encoding="utf-8")
    tested = set(re.findall(r'run_(?:example|as_user)\("(\w+)"', source))
    examples = {path.stem for path in EXAMPLES.glob("*.py")}
    assert tested == {name for name in examples if not name.startswith("stand_in_")}
    for prefix in ("llama_index_", "langchain_"):
        assert sum(name.startswith(prefix) for name in tested) >= 4
