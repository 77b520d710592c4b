"""Uploads, deletions and jobs: progress, results, stops, and files that are refused."""

from __future__ import annotations

import csv
import io
import sys
import threading
import time

import httpx
import pytest

from e2graphrag_integrations import SourceDocument
from e2graphrag_integrations.loaders import read_data
from e2graphrag_integrations.server.web import Limits, WebOptions, document_routes, uploads
from e2graphrag_integrations.testing import DigestLLM
from fakes import STORY
from file_makers import make_docx
from web_jobs import finished

QUESTIONS = [
    {"question": "Who gave Anna a map?", "gold_spans": [["story", 24, 40]]},
    {"question": "Where did Anna meet Bert?", "gold_ids": ["story"], "answer": "Oslo"},
]


def files(*names, content=None):
    content = STORY.encode() if content is None else content
    return [("files", (name, content)) for name in names]


def test_files_are_estimated_uploaded_listed_and_deleted(open_index, serve):
    client = serve(open_index())
    assert client.post("/documents/estimate", files=files("a.txt")).json()["documents"] == 1
    assert client.get("/documents").json()["total"] == 0
    assert client.post("/documents/estimate", files=files("a.txt")).json()["replaces"] == []
    job = finished(client, client.post("/documents", files=files("a.txt", "b c%.md")))
    assert job["state"] == "done", job
    assert job["result"]["documents"] == 2
    assert {one["stage"]: one["done"] == one["total"] for one in job["progress"]}["write"]
    assert [one["id"] for one in client.get("/documents").json()["items"]] == ["a.txt", "b c%.md"]
    assert client.delete("/documents/b%20c%25.md").json()["documents"] == 1
    assert client.delete("/documents/b%20c%25.md").status_code == 404
    assert client.get("/documents").json()["total"] == 1


def test_files_of_one_name_in_two_folders_are_two_documents(open_index, serve):
    client = serve(open_index())
    names = ("may/notes.md", "june/notes.md")
    assert finished(client, client.post("/documents", files=files(*names)))["state"] == "done"
    assert [one["id"] for one in client.get("/documents").json()["items"]] == sorted(names)
    assert client.get("/documents/may%2Fnotes.md").status_code == 200
    assert client.delete("/documents/may%2Fnotes.md").json()["documents"] == 1


@pytest.mark.fast_cases(5)
@pytest.mark.parametrize(
    ("names", "status", "message"),
    [
        (["../../x.txt"], 400, "begins with a dot"),
        (["a/./b.txt"], 400, "begins with a dot"),
        (["/etc/x.txt"], 400, "is empty"),
        (["a//b.txt"], 400, "is empty"),
        (["a /b.txt"], 400, "white space"),
        (["a\\b.txt"], 400, "backslash"),
        (["a\x1b[31m.txt"], 400, "control character"),
        ([f"{'x' * 300}.txt"], 400, "1 to 255 bytes"),
        (["txt.\u202efdp.txt"], 400, "control character"),
        ([" a.txt"], 400, "white space"),
        (["photo.jpg"], 415, "unknown kind"),
        (["noending"], 415, "unknown kind"),
        (["a.txt", "a.txt"], 400, "two files are named"),
        ([f"{number}.txt" for number in range(6)], 413, "Too many files"),
        ([], 415, "multipart/form-data"),
    ],
)
def test_files_that_may_not_be_uploaded_are_refused(open_index, serve, names, status, message):
    client = serve(open_index(), WebOptions(limits=Limits(upload_files=5)))
    for path in ("/documents", "/documents/estimate"):
        answer = client.post(path, files=files(*names))
        assert answer.status_code == status
        assert message in answer.json()["error"]["message"]
        assert "\x1b" not in answer.text
    assert client.get("/documents").json()["total"] == 0


@pytest.mark.slow
def test_large_empty_and_unreadable_files_are_refused(open_index, serve, tmp_path):
    client = serve(open_index(), WebOptions(limits=Limits(upload_bytes=300_000)))
    large = client.post("/documents", files=files("a.txt", content=b"x" * 300_001))
    assert (large.status_code, "at most 300,000 bytes" in large.text) == (413, True)
    halves = files("a.txt", "b.txt", content=b"x" * 150_000)  # the names and headers do not count
    assert client.post("/documents/estimate", files=halves).status_code == 200

    def parts():
        yield b'--x\r\nContent-Disposition: form-data; name="files"; filename="a.txt"\r\n\r\n'
        for _ in range(60):
            yield b"x" * 10_000

    headers = {"Content-Type": "multipart/form-data; boundary=x"}
    endless = client.post("/documents", content=parts(), headers=headers)
    assert endless.status_code == 413
    assert "empty" in client.post("/documents", files=files("a.txt", content=b"")).text
    cut = b'--x\r\nContent-Disposition: form-data; name="files"; filename="%s"\r\n\r\nHello\r\n'
    cut_short = client.post("/documents", content=cut % b"a.txt" + cut % b"b.txt", headers=headers)
    assert "in the middle of a file" in cut_short.json()["error"]["message"]
    long_field = client.post("/documents", data={"on_duplicate": "x" * 2_000}, files=files("a.txt"))
    assert "more than 1,000 bytes" in long_field.json()["error"]["message"]
    broken = client.post("/documents", content=b"--y\r\nnonsense", headers=headers)
    assert broken.status_code == 400
    other = client.post("/documents", data={"color": "red"}, files=files("a.txt"))
    assert "unknown field 'color'" in other.json()["error"]["message"]
    twice = client.post(
        "/documents", data={"on_duplicate": ["skip", "replace"]}, files=files("a.txt")
    )
    assert "'on_duplicate' of the form is given twice" in twice.json()["error"]["message"]
    paragraphs = b"<w:p/>" * 400_000
    xml = (
        b'<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main">'
        b"<w:body>%b</w:body></w:document>" % paragraphs
    )
    bomb_content = make_docx({"word/document.xml": xml})
    assert len(bomb_content) < 100_000
    bomb = client.post("/documents", files=files("bomb.docx", content=bomb_content))
    assert finished(client, bomb)["error"]["type"] == "FileLimitError"
    text = b"<w:p><w:r><w:t>%b</w:t></w:r></w:p>" % (b"word " * 30_000)
    inflated = make_docx({"word/document.xml": xml.replace(paragraphs, text)})
    several = [one for name in "abc" for one in files(f"{name}.docx", content=inflated)]
    job = finished(client, client.post("/documents", files=several))
    assert "contains more than 300,000 characters" in job["error"]["message"]
    mixed = files("bad.pdf", content=b"no PDF") + files("good.txt")
    job = finished(client, client.post("/documents", files=mixed))
    assert job["result"]["documents"] == 1
    assert list(job["result"]["unread"]) == ["bad.pdf"]


def test_empty_and_unknown_files_and_long_names_do_not_stop_the_others(open_index, serve):
    client = serve(open_index())
    long = f"{'x' * 300}.txt"
    left_out = [
        *files("empty.txt", content=b""),
        *files("empty.docx", content=b""),
        *files("photo.jpg", long),
    ]
    chosen = [*left_out, *files("good.txt")]
    cost = client.post("/documents/estimate", files=chosen).json()
    codes = {name: one["code"] for name, one in cost["unread"].items()}
    assert codes == {
        "empty.txt": "empty_file",
        "empty.docx": "empty_file",
        "photo.jpg": "file_kind",
        long: "long_file_name",
    }
    job = finished(client, client.post("/documents", files=chosen))
    assert (job["result"]["documents"], job["result"]["unread"]) == (1, cost["unread"])
    assert [one["id"] for one in client.get("/documents").json()["items"]] == ["good.txt"]
    nothing = client.post("/documents", files=left_out)
    assert (nothing.status_code, nothing.json()["error"]["code"]) == (400, "empty_file")


def test_the_estimate_counts_what_will_be_indexed_and_gives_reasons_for_the_rest(rag, serve):
    client = serve(rag)
    assert finished(client, client.post("/documents", files=files("same.txt")))["state"] == "done"
    bomb = make_docx({"word/document.xml": b"<w:document>" + b"<w:p/>" * 400_000})
    chosen = [
        *files("new.txt", content=b"Dora met Emil in Rome."),
        *files("same.txt"),
        *files("bad.pdf", content=b"no PDF"),
        *files("bomb.docx", content=bomb),
        *files("blank.txt", content=b" \n "),
    ]
    cost = client.post("/documents/estimate", files=chosen).json()
    assert (cost["documents"], cost["chunks"]) == (2, 1)
    assert (cost["skipped"], cost["empty"]) == (["same.txt"], ["blank.txt"])
    assert list(cost["unread"]) == ["bad.pdf", "bomb.docx"]
    assert all(cost["unread"].values())
    job = finished(client, client.post("/documents", files=chosen))
    assert job["state"] == "done", job
    assert list(job["result"]["unread"]) == ["bad.pdf", "bomb.docx"]
    assert (job["result"]["skipped"], job["result"]["empty"]) == (["same.txt"], ["blank.txt"])


def test_an_estimate_may_take_longer_than_a_question_and_then_reads_no_further_file(
    open_index, serve, monkeypatch
):
    client = serve(open_index(), WebOptions(limits=Limits(seconds=0.1)))
    read: list[str] = []
    released = threading.Event()

    def slow(data, name, **options):
        read.append(name)
        if name == "slow.txt":
            time.sleep(0.2)
        if name == "stuck.txt":
            released.wait(30)
        return read_data(data, name, **options)

    def estimate(*names, times):
        monkeypatch.setattr(document_routes, "_ESTIMATE", times)
        return client.post("/documents/estimate", files=files(*names))

    monkeypatch.setattr(uploads, "read_data", slow)
    assert estimate("slow.txt", times=600).status_code == 200
    answer = estimate("stuck.txt", "rest.txt", times=5)
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "too_slow")
    released.set()
    assert estimate("new.txt", times=600).status_code == 200
    assert "rest.txt" not in read


def test_a_missing_package_is_named_and_other_files_are_indexed(open_index, serve, monkeypatch):
    monkeypatch.setitem(sys.modules, "pypdf", None)
    client = serve(open_index())
    pdf = files("paper.pdf", content=b"%PDF-1.7")
    alone = client.post("/documents/estimate", files=pdf).json()
    assert alone["documents"] == 0
    assert "pip install 'e2graphrag-integrations[files]'" in alone["unread"]["paper.pdf"]["message"]
    assert "[files]" in finished(client, client.post("/documents", files=pdf))["error"]["message"]
    mixed = finished(client, client.post("/documents", files=pdf + files("good.txt")))
    assert mixed["result"]["documents"] == 1
    assert "pypdf" in mixed["result"]["unread"]["paper.pdf"]["message"]


def test_a_changed_document_is_replaced_only_on_request(rag, serve):
    client = serve(rag)
    rag.add([rag.document("story")], on_duplicate="replace")
    changed = files("story.txt", content=b"Anna moved to Rome.")
    assert finished(client, client.post("/documents", files=files("story.txt")))["state"] == "done"
    job = finished(client, client.post("/documents", files=changed))
    assert job["error"]["type"] == "DuplicateDocumentError"
    replacing = client.post("/documents", files=changed, data={"on_duplicate": "replace"})
    assert finished(client, replacing)["state"] == "done"
    assert client.get("/documents/story.txt").json()["text"] == "Anna moved to Rome."


def test_a_replaced_document_keeps_its_metadata(open_index, serve):
    rag = open_index()
    rag.add(SourceDocument("a.txt", STORY, "A Map", {"tenant": "a"}))
    client = serve(rag)
    upload = {"files": files("a.txt", content=b"Anna moved."), "data": {"on_duplicate": "replace"}}
    assert finished(client, client.post("/documents", **upload))["state"] == "done"
    document = rag.document("a.txt")
    assert (document.text, document.title) == ("Anna moved.", "A Map")
    assert document.metadata["tenant"] == "a"


def test_a_failed_document_is_shown_with_its_reason_and_indexed_again(open_index, serve):
    class Failing(DigestLLM):
        works = False

        def __call__(self, prompt):
            if not self.works:
                raise ValueError("api_key=sk-abcdefgh12345678 is wrong")
            return super().__call__(prompt)

    summarizer = Failing()
    client = serve(open_index(summarizer=summarizer))
    job = finished(client, client.post("/documents", files=files("a.txt", "b.txt")))
    assert job["state"] == "failed"
    assert "sk-abc" not in job["error"]["message"]
    page = client.get("/documents?status=failed").json()
    assert page["counts"]["failed"] == page["total"] == 2
    assert "sk-abc" not in str(page)
    Failing.works = True
    assert finished(client, client.post("/documents/a.txt/reindex"))["state"] == "done"
    assert finished(client, client.post("/documents/resume"))["state"] == "done"
    assert client.get("/documents").json()["counts"]["done"] == 2
    assert client.post("/documents/a.txt/reindex").status_code == 409
    assert client.post("/documents/c.txt/reindex").status_code == 404
    assert finished(client, client.post("/reindex"))["state"] == "done"


def test_the_limit_on_calls_stops_a_job_before_it_pays(open_index, serve):
    client = serve(open_index(summarizer=DigestLLM()))
    calls = client.post("/documents/estimate", files=files("a.txt")).json()["llm_calls"]
    few = client.post("/documents", files=files("a.txt"), data={"max_llm_calls": calls - 1})
    error = finished(client, few)["error"]
    assert (error["type"], error["code"]) == ("LLMCallLimitError", "llm_call_limit")
    assert error["values"]["limit"] == calls - 1
    enough = client.post("/documents", files=files("a.txt"), data={"max_llm_calls": calls})
    assert finished(client, enough)["state"] == "done"


class Slow(DigestLLM):
    """Waits until it may go on."""

    def __init__(self):
        super().__init__()
        self.started, self.released = threading.Event(), threading.Event()

    def __call__(self, prompt):
        self.started.set()
        assert self.released.wait(30)
        return super().__call__(prompt)


def test_jobs_wait_for_their_turn_and_can_be_stopped_and_followed(open_index, live):
    summarizer = Slow()
    url = live(open_index(summarizer=summarizer), WebOptions(limits=Limits(jobs=2)))
    with httpx.Client(base_url=url) as client:
        check_turns(client, summarizer)


def check_turns(client, summarizer):
    first = client.post("/documents", files=files("a.txt")).json()["job_id"]
    assert summarizer.started.wait(30)
    second = client.post("/documents", files=files("b.txt")).json()["job_id"]
    assert client.get(f"/jobs/{second}").json()["state"] == "waiting"
    third = client.post("/documents", files=files("c.txt"))
    assert (third.status_code, third.headers["retry-after"]) == (503, "10")
    assert client.delete("/documents/a.txt").status_code == 409  # a job is writing
    assert client.get(f"/jobs/{first}/result.json").status_code == 409
    assert client.post("/retrieve", json={"question": "Who?"}).status_code == 200
    assert client.delete(f"/jobs/{second}").json()["state"] == "stopped"
    summarizer.released.set()
    with client.stream("GET", f"/jobs/{first}/events") as stream:
        events = [line for line in stream.iter_lines() if line.startswith("event:")]
    assert events[-1] == "event: done"
    assert set(events[:-1]) <= {"event: progress"}
    metrics = client.get("/metrics").text
    assert 'e2graphrag_requests_total{operation="POST /documents",status="202"} 2.0' in metrics
    assert [one["id"] for one in client.get("/jobs").json()["items"]] == [second, first]
    assert client.get("/jobs/nothing").status_code == 404


def test_a_stopped_job_leaves_its_documents_pending(open_index, serve):
    summarizer = Slow()
    client = serve(open_index(summarizer=summarizer))
    job = client.post("/documents", files=files("a.txt", "b.txt")).json()["job_id"]
    assert summarizer.started.wait(30)
    threading.Timer(0.05, summarizer.released.set).start()  # the call in flight ends
    assert client.delete(f"/jobs/{job}").json()["state"] == "stopped"
    counts = client.get("/documents").json()["counts"]
    assert counts["done"] < 2
    assert finished(client, client.post("/documents/resume"))["state"] == "done"


def test_an_evaluation_compares_settings_and_is_exported(rag, serve):
    client = serve(rag)
    settings = {"A": {"k": 1}, "B": {"k": 3, "bm25_weight": 0.5, "paths": True}}
    body = {"questions": QUESTIONS, "settings": settings}
    job = finished(client, client.post("/evaluations", json=body))
    assert job["state"] == "done", job
    assert job["result"]["baseline"] == "A"
    assert job["result"]["settings"]["B"]["measures"]["recall"]["mean"] == 1
    assert client.get(f"/jobs/{job['id']}/result.json").json() == job["result"]
    table = client.get(f"/jobs/{job['id']}/result.csv")
    assert table.headers["content-disposition"] == 'attachment; filename="evaluation_scores.csv"'
    rows = list(csv.DictReader(io.StringIO(table.text)))
    assert (rows[0]["setting"], rows[0]["question"]) == ("A", "Who gave Anna a map?")
    assert all(one["result"] is None for one in client.get("/jobs").json()["items"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"questions": []}, "at least 1 item"),
        ({"questions": [{"question": "Who?"}]}, "question 1: the question has no gold answer"),
        ({"questions": QUESTIONS * 2}, "the limit of the server is 3"),
        ({"settings": {"A": {"k": 0}}}, "setting 'A': k=0"),
        ({"settings": {"A": {"history": ["x"]}}}, "an evaluation has no history"),
        ({"settings": {str(n): {} for n in range(11)}}, "at most 10 items"),
    ],
)
def test_bad_evaluations_are_refused(rag, serve, change, message):
    client = serve(rag, WebOptions(limits=Limits(questions=3)))
    body = {"questions": QUESTIONS, "settings": {"A": {}}} | change
    answer = client.post("/evaluations", json=body)
    assert answer.status_code == 400
    assert message in answer.json()["error"]["message"]


def test_gold_answers_that_the_index_lacks_fail_the_job(rag, serve):
    client = serve(rag)
    body = {"questions": [{"question": "Who?", "gold_ids": ["x"]}], "settings": {"A": {}}}
    job = finished(client, client.post("/evaluations", json=body))
    assert "line 1 ('Who?'): unknown gold id 'x'" in job["error"]["message"]
    csv_of_failure = client.get(f"/jobs/{job['id']}/result.csv")
    assert csv_of_failure.status_code == 409


def test_documents_are_sorted_naturally_by_the_server(open_index, serve):
    rag = open_index()
    rag.add(
        [
            SourceDocument("page 10", "Anna met Bert. " * 60),
            SourceDocument("Page 2", "Anna met Bert in Oslo."),
            SourceDocument("z", "Anna met Bert. " * 20, title="page 1"),
        ]
    )
    rag.add(SourceDocument("a waiting one", "Anna left."), wait=False)
    client = serve(rag)

    def ids(**parameters):
        return [one["id"] for one in client.get("/documents", params=parameters).json()["items"]]

    assert ids() == ids(order="title") == ["a waiting one", "z", "Page 2", "page 10"]
    assert ids(order="-title") == ["page 10", "Page 2", "z", "a waiting one"]
    assert ids(order="chunks") == ["a waiting one", "Page 2", "z", "page 10"]
    assert ids(order="-characters") == ["page 10", "z", "Page 2", "a waiting one"]
    assert ids(order="status") == ["a waiting one", "z", "Page 2", "page 10"]
    assert ids(order="-status") == ["z", "Page 2", "page 10", "a waiting one"]
    assert ids(order="-chunks", offset=1, limit=2) == ["z", "Page 2"]
    sizes = client.get("/documents", params={"search": "page 2"}).json()["items"][0]
    assert (sizes["chunks"], sizes["characters"]) == (1, len("Anna met Bert in Oslo."))
    assert client.get("/documents?order=color").status_code == 400
    [described] = [
        one
        for one in client.get("/openapi.json").json()["paths"]["/documents"]["get"]["parameters"]
        if one["name"] == "order"
    ]
    assert "-characters" in described["schema"]["enum"]
    assert "page 2 comes before page 10" in described["description"]


def test_several_documents_are_deleted_in_one_write_or_not_at_all(rag, serve, monkeypatch):
    rag.add([SourceDocument(name, "Anna met Bert.") for name in "abc"])
    rag.add(SourceDocument("waits", "Anna left."), wait=False)
    writes = []
    delete = rag.store.delete_documents
    monkeypatch.setattr(
        rag.store,
        "delete_documents",
        lambda ids, **options: writes.append(ids) or delete(ids, **options),
    )
    client = serve(rag)
    unknown = client.post("/documents/delete", json={"ids": ["a", "none"]})
    assert unknown.status_code == 404
    assert unknown.json()["error"]["type"] == "UnknownDocumentError"
    assert client.get("/documents").json()["total"] == 5
    answer = client.post("/documents/delete", json={"ids": ["a", "b", "waits", "a"]})
    assert (answer.json()["documents"], answer.json()["chunks"]) == (3, 2)
    assert writes == [["a", "none"], ["a", "b", "waits"]]
    assert {one["id"] for one in client.get("/documents").json()["items"]} == {"c", "story"}
    for body in ({"ids": []}, {}, {"ids": ["c"] * 1_001}, {"ids": [1]}, {"ids": ["c"], "x": 1}):
        assert client.post("/documents/delete", json=body).status_code == 400
    assert client.get("/documents").json()["total"] == 2


def test_several_documents_are_indexed_again_at_the_cost_that_was_estimated(open_index, serve):
    rag = open_index()
    rag.add(SourceDocument("done", "Anna met Bert."))
    rag.add([SourceDocument(name, "Anna left Bert.") for name in ("p", "q", "r")], wait=False)
    client = serve(rag)
    for path in ("/documents/reindex", "/documents/reindex/estimate"):
        refused = client.post(path, json={"ids": ["p", "done"]})
        assert (refused.status_code, "'done' is indexed" in refused.text) == (409, True)
        assert client.post(path, json={"ids": ["p", "none"]}).status_code == 404
    cost = client.post("/documents/reindex/estimate", json={"ids": ["p", "q"]}).json()
    assert (cost["documents"], cost["llm_calls"]) == (2, 0)
    body = {"ids": ["p", "q"], "max_llm_calls": cost["llm_calls"]}
    job = finished(client, client.post("/documents/reindex", json=body))
    assert (job["state"], job["result"]["documents"]) == ("done", 2)
    counts = client.get("/documents").json()["counts"]
    assert {name: count for name, count in counts.items() if count} == {"done": 3, "pending": 1}
