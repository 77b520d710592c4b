"""The page in Chinese: which browsers get it, the switch, and that nothing is left in English."""

from __future__ import annotations

import re

import pytest

pytest.importorskip("playwright")
from playwright.sync_api import expect

from chromium import SIZES, running_page
from e2graphrag_integrations import SourceDocument
from e2graphrag_integrations.server.web import make_app

QUESTION = "q=Where+did+Alice+meet+Bob%3F"
VIEWS = {
    "ask": "#index-facts",
    f"ask?{QUESTION}&a.paths=1&gold=letter-02.txt": ".hit",
    f"ask?{QUESTION}&compare=1&b.mode=local": '[data-setting="B"] .hit',
    f"ask?{QUESTION}&compare=1&a.mode=global&b.history=user:+Who+is+Carol%3F": (
        '[data-setting="B"] .hit'
    ),
    f"ask?{QUESTION}&compare=1&a.strategy=tree&b.strategy=paper": '[data-setting="B"] .hit',
    f"ask?{QUESTION}&compare=1&a.k=3&b.token_budget=90": '[data-setting="B"] .hit',
    "ask?q=harbour&a.where=%7B%22day%22:+99%7D": "#answers .empty",
    "ask?q=What+is+the+text+about%3F": ".hit",
    "documents": "#view-documents tbody tr",
    "graph?entity=alice": "#view-graph .graph-members li",
    "graph?source=alice&target=carol": "#view-graph .graph-paths li",
    "tree?document=treasure.pdf": ".tree-node",
}
"""Addresses, and elements that each of them shows when it is complete."""

ERRORS = {
    "graph?entity=Xenia": "索引中没有名称“Xenia”。",
    "tree?document=gone.txt": "索引中没有文档“gone.txt”。",
}
"""Addresses of what the index lacks, and the message of each in Chinese."""

REFUSED = {
    "a.where=%7B": "过滤条件必须是 JSON",
    "a.where=%7B%22day%22:%7B%22$near%22:3%7D%7D": "'$near' 不是运算符。可用 $eq",
    "a.boosts=%7B%22x%22:1%7D": "加权：未知的键 'x'",
    "gold=gone.txt": "索引未包含全部标准答案。问题 1（'Alice'）：没有 ID 为 'gone.txt' 的文档",
}
"""What the server or the page refuses, and the message in Chinese."""

SHOWN = """
() => {
  const texts = "[dir=auto], [lang=en], pre, code, kbd, .metadata, textarea, .kinds p";
  const places = `${texts}, script, style, noscript`;
  const shown = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const one = walker.currentNode;
    if (!one.parentElement.closest(places)) shown.push(one.data);
  }
  for (const name of ["aria-label", "title", "placeholder"])
    for (const one of document.querySelectorAll(`[${name}]`)) shown.push(one.getAttribute(name));
  return [document.title, ...shown].filter((one) => one.trim());
}
"""
"""Returns the texts and labels of the page, without those of documents."""

OPEN_ALL = "for (const one of document.querySelectorAll('details')) one.open = true"
MAIN = {
    f"ask?{QUESTION}&a.paths=1": "#view-ask .hit",
    f"ask?{QUESTION}&a.strategy=paper": "#view-ask .hit",
    f"ask?{QUESTION}&a.strategy=tree": "#view-ask .hit",
    "documents": "#view-documents tbody tr",
    "graph?entity=alice": "#view-graph .graph-members li",
    "tree?document=treasure.pdf": "#view-tree .tree-node",
    "graph?entity=Xenia": "#view-graph .error",
}
"""The main flows: an answer with its reasons and details, the other views, and an error."""

NAMES = re.compile(
    r"e2graphrag evaluate|E2GraphRAG|BM25|nDCG|PageRank|JSON|CSV|token|Enter|Shift|ID\b|kB|MB|"
    r"Markdown|HTML|PDF|DOCX|XLSX|PPTX|EPUB|RTF|where=|boost=|English|\w+ ?\.e2g|library|"
    r"[\w-]+\.txt|[\w-]+\.pdf|user|assistant|tag|author|day|letter-1|"
    r"Letter \d+|\b[0-9a-f]{8}\b|:en\b"
)
"""What is not Chinese in a Chinese page: names, commands, formats, and the texts of the index."""


def english_words(page):
    """Return the texts of a page with a word that is neither Chinese nor a name."""
    found = page.evaluate("fetch('entities?limit=200').then((answer) => answer.json())")
    labels = "|".join(re.escape(one["label"]) for one in found["items"])
    known = re.compile(
        rf"“.*?”|(?<![A-Za-z])(?:{labels})(?![A-Za-z])|{NAMES.pattern}", re.IGNORECASE
    )
    return [one for one in page.evaluate(SHOWN) if re.search(r"[A-Za-z]{2}", known.sub("", one))]


@pytest.mark.slow
def test_the_browser_decides_until_a_language_is_chosen(open_page, page_url, check_access):
    page = open_page(f"{page_url}#/ask?{QUESTION}", locale="zh-TW")
    page.locator(".hit").first.wait_for()
    assert page.evaluate("document.documentElement.lang") == "zh-Hans"
    assert page.locator(".tabs a").all_inner_texts() == ["检索测试", "文档", "图谱", "摘要树"]
    assert page.title().startswith("检索测试")
    check_access(page, width=390, theme="dark")
    page.locator("#language").select_option("en")
    page.locator(".tabs a", has_text="Retrieval test").wait_for()
    page.locator(".hit").first.wait_for()  # the address keeps the question
    assert page.evaluate("document.documentElement.lang") == "en"
    page.reload()
    page.locator(".tabs a", has_text="Retrieval test").wait_for()
    assert page.locator("#language").input_value() == "en"


@pytest.mark.slow
def test_the_switch_works_where_storage_is_blocked(open_page, page_url):
    page = open_page("about:blank", locale="de-DE")
    page.context.add_init_script(
        "Storage.prototype.getItem = Storage.prototype.setItem = () => { throw new Error() }"
    )
    page.goto(page_url)
    page.locator(".tabs a", has_text="Documents").wait_for()  # English for all other languages
    page.locator("#language").select_option("zh")
    page.locator(".tabs a", has_text="文档").wait_for()
    assert page.url.partition("#")[0].endswith("?lang=zh")


def test_no_main_flow_shows_an_english_sentence_in_chinese(open_page, console, page_url):
    console.expected.add("status of 404")
    page = open_page(page_url, locale="zh-CN")
    for address, ready in MAIN.items():
        page.goto(f"{page_url}#/{address}")
        page.locator(ready).first.wait_for()
        page.locator("[aria-busy]").first.wait_for(state="detached")
        page.evaluate(OPEN_ALL)
        page.locator("text=正在加载").first.wait_for(state="detached")
        assert not english_words(page), address


@pytest.mark.slow
def test_versions_of_a_document_are_told_in_chinese(open_page, web_index):
    web_index.add(SourceDocument("旧.txt", "Zoe owes rent to Alice."))
    web_index.add(
        SourceDocument("新.txt", "Zoe owes Alice no rent.", None, {"supersedes": "旧.txt"})
    )
    with running_page(make_app(web_index)) as url:
        page = open_page(url, locale="zh-CN")
        page.goto(f"{url}#/ask?q=Zoe%20owes%20rent&a.k=9")
        page.locator("#view-ask .hit").first.wait_for()
        page.evaluate(OPEN_ALL)
        hits = page.locator("#view-ask .hit")
        expect(hits.filter(has_text="2 个版本中最新")).to_have_count(1)
        expect(hits.filter(has_text="旧版本：已由“新.txt”取代")).to_have_count(1)
        assert not english_words(page)


@pytest.mark.slow
def test_no_view_shows_english_or_a_missing_value_in_chinese(open_page, page_url):
    page = open_page(page_url, locale="zh-CN")
    for address, ready in VIEWS.items():
        page.goto(f"{page_url}#/{address}")
        page.locator(ready).first.wait_for()
        page.locator("[aria-busy]").first.wait_for(state="detached")
        page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
        page.locator("text=正在加载").first.wait_for(state="detached")
        texts = page.evaluate(SHOWN)
        assert len(texts) > 20
        assert not english_words(page), address
        for word in ("null", "undefined", "NaN", "[object"):
            assert not any(word in one for one in texts), (address, word)


@pytest.mark.slow
def test_dialogs_uploads_and_errors_are_chinese(open_page, console, web_index):
    console.expected |= {"status of 400", "status of 404"}
    web_index.add(SourceDocument("new.txt", "Zoe painted it."), wait=False)
    file = {"name": "n.txt", "mimeType": "text/plain", "buffer": b"Zoe met Alice."}
    with running_page(make_app(web_index)) as url:
        page = open_page(f"{url}#/documents", locale="zh-CN")
        page.locator("tbody tr").first.wait_for()
        assert page.locator("#state").inner_text().startswith("已索引 3 个文档，1 个待处理。")
        page.locator("#upload").set_input_files([file, {**file, "name": "n.exe"}])
        page.locator("#index").wait_for()
        assert not english_words(page)
        page.locator("#index").click()
        page.locator("[data-job]", has_text="完成：已索引 1 个文档").wait_for()
        # A document that is listed later would not be selected.
        page.locator("tbody tr").nth(4).wait_for()
        page.locator("#select-page").check()
        page.locator("#delete-selected").click()
        page.locator("dialog", has_text="此操作无法撤销").wait_for()
        page.keyboard.press("Escape")
        page.locator("#keys").click()
        page.locator("dialog", has_text="下一条结果").wait_for()
        assert not english_words(page)
        page.keyboard.press("Escape")
        page.goto(f"{url}#/ask?q=Alice&a.k=999")
        page.locator("#view-ask .error", has_text="必须是 1 到 200 之间的数字").wait_for()
        for address, message in ERRORS.items():
            page.goto(f"{url}#/{address}")
            error = page.locator(".view:not([hidden]) .error", has_text=message)
            error.wait_for()
            assert not english_words(page), address
        for address, message in REFUSED.items():
            page.goto(f"{url}#/ask?q=Alice&{address}")
            page.locator("#view-ask .error", has_text=message).first.wait_for()
        page.goto(f"{url}#/documents")
        broken = {"name": "b.pdf", "mimeType": "application/pdf", "buffer": b"no PDF"}
        page.locator("#upload").set_input_files(broken)
        page.locator("#unindexed", has_text="b.pdf 不是可读取的 PDF：").wait_for()


@pytest.mark.slow
@pytest.mark.parametrize("locale", ["en-US", "zh-CN"])
def test_a_chinese_index_suggests_chinese_questions(open_page, web_index, locale):
    for one in web_index.status():
        web_index.delete(one.id)
    web_index.add(SourceDocument("a", "Viktor 和 Wanda 在奥斯陆见面，他们谈了很久。", title="见面"))
    with running_page(make_app(web_index)) as url:
        page = open_page(url, locale=locale)
        page.locator(".examples a").first.click()
        page.locator(".hit").first.wait_for()
        assert page.locator("#question").input_value() == "Viktor和Wanda有什么关系？"
        expect(page.locator(".hit .excerpt mark").first).to_be_visible()


@pytest.mark.slow
@pytest.mark.parametrize("view", ["ask", "documents", "graph", "tree"])
def test_chinese_views_are_accessible_in_both_themes_and_all_widths(
    open_page, page_url, check_access, view
):
    address = next(one for one in VIEWS if one == view == "documents" or one.startswith(f"{view}?"))
    page = open_page(f"{page_url}#/{address}", locale="zh-CN")
    page.locator(VIEWS[address]).first.wait_for()
    page.locator("[aria-busy]").first.wait_for(state="detached")
    page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    for width in SIZES:
        for theme in ("light", "dark"):
            check_access(page, width=width, theme=theme)
