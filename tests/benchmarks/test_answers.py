"""The contexts, the scores and the cached model of `benchmarks/answers.py`."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import answers
from answers_bench.contexts import NAMES, context_of, first_words
from answers_bench.reader import KEY, Reader
from answers_bench.report import difference_table, pooled, score_table, summary
from answers_bench.scoring import answer_scores, context_scores
from quality_bench.caches import DiskCache
from quality_bench.corpora import Question
from quality_sets import make_set, tiny
from stub_server import llm_calls, running_stub

API_KEY = "sk-never-to-be-written-0123456789"


def question(answer):
    return Question("?", frozenset(), (), "", answer, "", None)


def test_answers_match_as_squad_defines_it():
    exact = answer_scores("The Spice, Melange!", "spice melange")
    assert exact == {"EM": 1, "F1": 1, "ROUGE-L": pytest.approx(0.8)}
    long = answer_scores("It is melange, a spice spice.", "the spice melange")
    assert (long["EM"], long["F1"]) == (0, pytest.approx(2 * 2 / (5 + 2)))
    assert long["ROUGE-L"] == pytest.approx(2 * 1 / (6 + 3))
    assert answer_scores("", "spice") == {"EM": 0, "F1": 0, "ROUGE-L": 0}


def test_contexts_are_scored_without_yes_and_no():
    found = context_scores("Herbert wrote Dune in Tacoma.", question("dune"))
    assert found == {"in context": 1, "words in context": 1}
    assert context_scores("dunes", question("Dune")) == {"in context": 0, "words in context": 0}
    half = context_scores("The spice.", question("The worms guard the spice " + "and " * 9))
    assert half == {"words in context": pytest.approx(1 / 3)}
    assert context_scores("yes", question("Yes.")) == {}


@pytest.mark.fast_cases(6)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("label", ["hotpotqa", "qmsum"])
def test_contexts_stay_within_the_limit(tmp_path, names, label, name):
    make_set(tmp_path, label)
    corpus = tiny(tmp_path, label, names)
    with corpus.index() as rag:
        source = context_of(name, corpus, rag, 8, 4)
        texts = [source(question) for question in corpus.questions("report")]
    limit = {"none": 0, "full": 3}.get(name, 6)
    assert all(len(text.split()) <= limit for text in texts)
    assert bool(texts[0]) == (name != "none")
    if name == "full":  # the beginning of the corpus, or that of the right document
        assert texts[0] == ("Dune\nDune is" if label == "hotpotqa" else "Herbert was born")
    if name == "gold":
        assert texts[0].startswith("Herbert")


def test_a_text_is_cut_after_a_word_and_keeps_its_lines():
    assert first_words("a b\n\nc  d", 3) == "a b\n\nc"
    assert first_words("a b", 3) == "a b"


def test_a_larger_sample_contains_a_smaller_one():
    few, more = (answers.sample(range(10), total, 3) for total in (9, 18))
    assert (len(few), len(more)) == (3, 6)
    assert set(few) < set(more)
    assert more == sorted(more)
    assert answers.sample(range(2), 9, 3) == answers.sample(range(2), None, 3) == [0, 1]


def test_differences_use_the_questions_that_have_the_measure():
    ours = [{"F1": 1.0, "in context": 1.0}, {"F1": 0.5}]
    theirs = [{"F1": 0.0, "in context": 0.0}, {"F1": 0.5}]
    one = summary({"hybrid": ours, "rrf": theirs})
    assert one["questions"] == 2
    assert one["systems"]["hybrid"] == {"F1": 0.75, "in context": 1.0}
    versus = one["hybrid minus"]["rrf"]
    assert (versus["F1"]["difference"], versus["in context"]["difference"]) == (0.5, 1.0)
    both = {"one": one, "all": summary(pooled([{"hybrid": ours, "rrf": theirs}] * 2))}
    assert "| all | 4 | F1 | 0.750 | 0.250 |" in score_table(both)
    assert "| one | in context | +1.000 [+1.000, +1.000] |" in difference_table(both)


@pytest.fixture
def cache(tmp_path):
    cache = DiskCache(tmp_path / "answers.sqlite")
    yield cache
    cache.close()


class Failing(BaseHTTPRequestHandler):
    """Fails with the statuses of the server in turn, repeats the key, and then answers."""

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.bodies.append(body)
        status = self.server.statuses.pop(0) if self.server.statuses else 200
        if status == 200:
            reply = {"choices": [{"message": {"content": "<think>Hm.</think> Herbert "}}]}
        else:
            reply = {"error": {"message": f"no: {self.headers['Authorization']}"}}
        data = json.dumps(reply).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Content-Type", "application/json")
        self.send_header("retry-after-ms", "1")
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


@pytest.fixture
def failing() -> Iterator[HTTPServer]:
    with HTTPServer(("127.0.0.1", 0), Failing) as server:
        server.statuses, server.bodies = [], []
        server.url = f"http://127.0.0.1:{server.server_port}/v1"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def reader(failing, cache, monkeypatch):
    monkeypatch.setenv(KEY, API_KEY)
    request = {"max_tokens": None, "max_completion_tokens": 50, "top_k": 1}
    reader = Reader("tiny", failing.url, cache, request=request, retries=2)
    yield reader
    reader.close()


def test_failed_calls_are_repeated_and_answers_cached(failing, reader):
    failing.statuses = [503, 429]
    assert [reader.answer("Who?", 9) for _ in range(2)] == ["Herbert", "Herbert"]
    assert (reader.calls, len(failing.bodies)) == (1, 3)
    assert {"top_k": 1, "max_completion_tokens": 50, "temperature": 0}.items() <= (
        failing.bodies[0].items()
    )
    assert "max_tokens" not in failing.bodies[0]
    assert reader.answer("When?", 9) == "Herbert"
    assert reader.calls == 2


@pytest.mark.parametrize(
    ("status", "advice"), [(401, KEY), (400, "--full-text-tokens"), (503, "--model")]
)
def test_a_failing_server_ends_the_run_with_advice_and_without_the_key(
    failing, reader, status, advice
):
    failing.statuses = [status] * 9
    with pytest.raises(SystemExit, match="run the same command again") as stopped:
        reader.answer("Who?", 9)
    message = str(stopped.value)
    assert failing.url in message
    assert advice in message
    assert API_KEY not in message


def test_a_server_that_is_not_there_is_named(cache):
    with pytest.raises(SystemExit, match="must start with http"):
        Reader("tiny", "localhost:1", cache)
    reader = Reader("tiny", "http://127.0.0.1:9/v1", cache, retries=0)
    with pytest.raises(SystemExit, match="Is the server running"):
        reader.answer("Who?", 9)
    reader.close()


@pytest.mark.slow
@pytest.mark.shared
def test_a_run_resumes_from_its_cached_answers(tmp_path, monkeypatch, names, capsys):
    sets = ["hotpotqa", "qmsum"]
    for label in sets:
        make_set(tmp_path, label)
    monkeypatch.setenv(KEY, API_KEY)
    monkeypatch.setattr(
        answers, "corpora", lambda data, labels: [tiny(data, label, names) for label in labels]
    )
    out = tmp_path / "out.json"

    def run(*options):
        monkeypatch.setattr(
            sys, "argv", ["answers.py", "--data", str(tmp_path), "--cache",
                          str(tmp_path / "answers.sqlite"), "--out", str(out), *options]
        )  # fmt: skip
        answers.main()
        return json.loads(out.read_text(encoding="utf-8"))

    with running_stub(20) as url:
        server = ("--base-url", f"{url}/v1", "--model", "stub")
        run("--sets", "hotpotqa", "--systems", "hybrid,none", *server)
        calls = llm_calls(url)
        options = ("--sets", ",".join(sets), "--questions", "2", "--split", "report", *server)
        result = run(*options)
        assert llm_calls(url) > calls
        calls = llm_calls(url)
        assert run(*options)["sets"] == result["sets"]
        assert llm_calls(url) == calls
    assert list(result["sets"]) == [*sets, "all"]
    assert result["sets"]["all"]["questions"] == 2
    systems = result["sets"]["all"]["systems"]
    assert list(systems) == list(NAMES)
    assert systems["hybrid"]["F1"] > systems["none"]["F1"]
    assert set(result["sets"]["all"]["hybrid minus"]) == set(NAMES) - {"hybrid"}
    without = run("--sets", "qmsum", "--systems", "hybrid")
    assert without["model"] is None
    assert set(without["sets"]["qmsum"]["systems"]["hybrid"]) == {"in context", "words in context"}
    assert API_KEY not in capsys.readouterr().out + out.read_text(encoding="utf-8")


def test_unknown_sets_and_half_a_server_are_refused(monkeypatch, capsys):
    for options, message in (
        (["--sets", "hotpotqa,moby"], "unknown sets: moby"),
        (["--base-url", "http://127.0.0.1:9"], "--base-url and --model belong together"),
    ):
        monkeypatch.setattr(sys, "argv", ["answers.py", "--data", ".", *options])
        with pytest.raises(SystemExit):
            answers.parsed()
        assert message in capsys.readouterr().err
