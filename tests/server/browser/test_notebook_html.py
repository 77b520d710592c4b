"""`_repr_html_` in a browser: hostile documents do nothing, and the text is readable."""

from __future__ import annotations

import pytest

from chromium import axe_source
from e2graphrag_integrations import SourceDocument
from e2graphrag_integrations.evaluation import Question, Setting, evaluate

ATTACK = (
    '<script>hacked("script")</script><img src=x onerror="hacked(1)"><svg onload="hacked(2)"></svg>'
    '</div></td></table><a href="javascript:hacked(3)">link</a>" onclick="hacked(4)'
)
THEMES = {"light": "background: #fff; color: #111", "dark": "background: #111; color: #eee"}


@pytest.fixture
def shown(web_index):
    """The HTML of a result and of several reports about documents with attacks."""
    hostile = SourceDocument(ATTACK, f"Mallory sent Alice a parcel. {ATTACK}", f"M {ATTACK}")
    web_index.add(hostile)
    question = "What did Mallory send to Alice?"
    where = {"document_id": hostile.id}
    result = web_index.retrieve(question, k=3, paths=True, where=where)
    assert result.nodes[0].document_id == hostile.id
    gold = Question(hostile.text, gold_ids=[hostile.id])
    report = evaluate(web_index, [gold], {hostile.id: Setting(k=1), "five": Setting(k=5)})
    objects = [result, result.trace, web_index.entity("Mallory"), web_index.stats(), report]
    return "".join(one._repr_html_() for one in [*objects, *web_index.communities()])


@pytest.mark.slow
@pytest.mark.parametrize("theme", THEMES)
def test_notebook_html_runs_no_script_and_is_readable(shown, theme, open_page):
    page = open_page("about:blank")
    style = f"<style>body {{ {THEMES[theme]} }}</style>"
    page.set_content(
        f"<!doctype html><html lang='en'><head><title>Notebook</title>{style}</head>"
        f"<body><main><h1>Notebook</h1>{shown}</main></body></html>"
    )
    page.wait_for_timeout(100)  # handlers of broken images run later
    assert page.evaluate("attacks") == []
    assert page.locator("main :is(script, img, svg, iframe, a, style, link)").count() == 0
    assert "Mallory sent Alice a parcel." in page.locator("mark").first.inner_text()
    page.evaluate(axe_source())
    found = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")["violations"]
    assert [(one["id"], [node["html"] for node in one["nodes"]]) for one in found] == []
