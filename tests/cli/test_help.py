"""Help texts, examples, usage errors, shell completion and imports."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from importlib import metadata

import pytest
from typer.main import get_command

from cli_helpers import TEA_PARTY, all_commands
from e2graphrag_integrations import E2GraphRAG
from e2graphrag_integrations.cli import demo
from e2graphrag_integrations.cli.app import app
from e2graphrag_integrations.cli.main import main
from e2graphrag_integrations.cli.output import progress
from e2graphrag_integrations.server import transports
from e2graphrag_integrations.server.web import app as web_app

COMMANDS = all_commands()
TOP = get_command(app).commands
GROUPS = [name for name, one in TOP.items() if hasattr(one, "commands")]
PAGES = {"": get_command(app), **{name: TOP[name] for name in GROUPS}, **COMMANDS}
"""What has a help page, by its name after the program."""


def examples(name):
    return [
        line.strip().removeprefix("e2graphrag ")
        for line in PAGES[name].epilog.splitlines()
        if line.startswith("  e2graphrag ")
    ]


def called_by(example):
    """Return the name of the command in an example, or the group whose help it prints."""
    first, second, *_ = [*shlex.split(example), ""]
    return f"{first} {second}" if first in GROUPS and second != "--help" else first


def test_help_describes_every_command_and_option_and_ends_with_examples(call):
    for name, page in PAGES.items():
        code, out, err = call(*name.split(), "--help")
        assert (code, err) == (0, "")
        assert out.startswith(f"Usage: {f'e2graphrag {name}'.strip()} ")
        assert examples(name), name
        assert out.rstrip().endswith(examples(name)[-1])
        assert all(parameter.help for parameter in page.params), name
        assert call(*name.split(), "-h").out == out


def test_examples_of_the_help_parse():
    for name, example in [(page, one) for page in PAGES for one in examples(page)]:
        called = called_by(example)
        assert called.startswith(name), example  # the help of a group shows its own commands
        arguments = shlex.split(example)[len(called.split()) :]
        if arguments != ["--help"]:
            PAGES[called].make_context(called, arguments)  # raises an error if they do not fit


def test_the_top_has_at_most_ten_names():
    assert len(TOP) <= 10
    assert GROUPS == ["documents", "entities", "export", "indexes"]


def test_help_of_a_group_lists_every_command_in_one_line(call):
    for name in ("", *GROUPS):
        commands = call(*name.split(), "--help").out.partition("Commands:")[2]
        listed = re.findall(r"^  ([\w-]+)  +[A-Z].*[^.]\.$", commands, re.MULTILINE)
        assert listed == list(PAGES[name].commands)  # "..." would mean a shortened line


def test_a_group_without_a_command_prints_its_help_as_an_error(call):
    for name in ("", *GROUPS):
        assert call(*name.split()) == (2, "", call(*name.split(), "--help").out)


def test_commands_of_groups_are_not_at_the_top(call):
    former = {"status", "entity", "eval", "export-graph", "update-vectors"}
    for name in former | {name.split()[-1] for name in COMMANDS}.difference(TOP):
        code, out, err = call(name, "novels.e2g")
        assert (code, out) == (2, "")
        assert f"No such command '{name}'" in err


@pytest.mark.slow
@pytest.mark.usefixtures("extension")
def test_examples_of_the_help_run_in_their_order(tmp_path, monkeypatch, call, postgres, qdrant):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("E2GRAPHRAG_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setattr(progress, "_PROGRESS_SECONDS", float("inf"))  # for slow machines
    monkeypatch.setattr(demo, "ask_demo", lambda *_: None)  # tests/system runs the demo
    monkeypatch.setattr(
        demo, "index_demo", lambda path, *_: E2GraphRAG.open(path, embedder="hashing").close()
    )
    for transport in ("serve_stdio", "serve_http"):  # tests/server runs the servers
        monkeypatch.setattr(transports, transport, lambda *_: None)
    monkeypatch.setattr(web_app, "run_server", lambda *_, **__: None)
    (tmp_path / "novels").mkdir()
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "cold.md").write_text("Aspirin helped her.")
    (tmp_path / "drugs.jsonl").write_text('{"label": "DRUG", "pattern": "Aspirin"}')
    (tmp_path / "notes.md").write_text("# Notes\n\nWeena is one of the Eloi.")
    question = {"question": "Who is Weena?", "answer": "the Eloi"}
    (tmp_path / "questions.jsonl").write_text(json.dumps(question))
    (tmp_path / "settings.toml").write_text("[five]\nk = 5")
    (tmp_path / "tags.json").write_text('["travel", "science"]')
    text = f"Filby did not believe in the Time Machine. {TEA_PARTY}"
    (tmp_path / "novels" / "the_time_machine.txt").write_text(text)
    servers = {"postgresql://host/db": postgres.url, "http://localhost:6333": qdrant.url}
    for name in COMMANDS:
        for example in examples(name):
            for server, url in servers.items():
                example = example.replace(server, url)  # noqa: PLW2901 - the servers of the tests
            if "--enrich-model" in example and "--estimate" not in example:
                example += " --estimate"  # noqa: PLW2901 - there is no key
            if "--vectors" in example:
                call("export", "vectors", "novels.e2g", f"{qdrant.url}/novels")
            result = call(*shlex.split(example))
            assert (result.code, result.err) == (0, ""), (example, result)
        if name == "documents delete":
            call("index", "novels/", "--out", "novels.e2g")


def test_version_is_printed(call):
    expected = f"e2graphrag {metadata.version('e2graphrag-integrations')}\n"
    assert call("--version") == (0, expected, "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["indx"], "Did you mean 'index'"),
        (["documents", "update", "i.e2g"], "Missing argument"),
        (["documents", "delete", "i.e2g"], "Missing argument"),
        (["export", "folder", "i.e2g"], "Missing argument"),
        (["indexes", "import", "out"], "Missing option '--out'"),
        (["documents", "resume"], "Missing argument"),
        (["documents", "list", "i.e2g", "--prune"], "No such option"),
        (["query", "i.e2g", "Q", "--prof"], "No such option"),
        (["query", "i.e2g", "Q", "-k", "many"], "Invalid value for '-k'"),
        (["query", "i.e2g", "Q", "more"], "unexpected extra argument"),
        (["index", "t", "--out", "i.e2g", "--cut", "odd"], "not one of 'fixed', 'content'"),
    ],
    ids=" ".join,
)
def test_usage_error_exits_with_2_and_prints_the_usage(arguments, message, call):
    code, out, err = call(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith("Usage: e2graphrag ")
    assert message in err


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("e2graphrag e", ["evaluate", "entities", "export"]),
        ("e2graphrag indexes co", ["compact", "copy"]),
        ("e2graphrag query i.e2g Q --mode ", ["auto", "local", "global"]),
        ("e2graphrag documents list --j", ["--json"]),
    ],
)
def test_shell_completion_suggests_commands_options_and_choices(words, expected, monkeypatch, call):
    monkeypatch.setenv("_E2GRAPHRAG_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(words.count(" ")))
    code, out, _ = call()
    assert (code, out.split()) == (0, expected)


@pytest.mark.slow
def test_package_imports_neither_typer_nor_rich():
    code = (
        "import sys, e2graphrag_integrations.engine, e2graphrag_integrations.cli;"
        "print({'typer', 'rich'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


@pytest.mark.slow
def test_help_imports_no_heavy_library():
    code = (
        "import sys; from e2graphrag_integrations.cli.main import main; main(['index', '--help']);"
        "print({'numpy', 'scipy', 'spacy', 'faiss', 'torch', 'networkx'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("\nset()\n")


def test_main_returns_instead_of_exiting(capsys):
    assert main(["--help"]) == 0
    assert main(["nonsense"]) == 2
    capsys.readouterr()
