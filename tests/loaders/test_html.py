"""HTML: visible text, blocks, encodings and broken markup."""

from __future__ import annotations

import contextlib
import random
import re
import time
from pathlib import Path

import pytest

from e2graphrag_integrations.errors import UnreadableFileError
from e2graphrag_integrations.loaders import read_data, read_documents, read_file


def test_html_keeps_words_together_and_blocks_apart(tmp_path: Path):
    (tmp_path / "a.html").write_text(
        "<html><head><title>The page</title><style>p{}</style><script>x()</script></head><body>"
        "<h1>Head</h1><p>One <b>bo</b>ld word.</p><ul><li>first</li><li>second</li></ul></body>"
    )
    [document] = read_documents([tmp_path])
    assert document.title == "The page"
    assert document.text.split("\n\n")[0].strip() == "Head"
    assert "One bold word." in document.text
    assert "x()" not in document.text
    assert "first\n" in document.text


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize(
    "markup",
    [
        pytest.param("<div>" * 60_000 + "Bob", id="deep"),
        pytest.param("<p>Bob</p>" * 20_000 + "<br>" * 20_000, id="long"),
        pytest.param("Bob" + "<a " * 80_000, id="unclosed_tags"),
        pytest.param("Bob<p " + " ".join(f"x{i}" for i in range(100_000)) + ">", id="attributes"),
        pytest.param("<table><tr><td>" * 20_000 + "Bob", id="deep_tables"),
        pytest.param("Bob" + "<![CDATA[" * 50_000, id="cdata"),
    ],
)
def test_html_is_read_in_linear_time(tmp_path: Path, markup: str):
    (tmp_path / "a.html").write_text(markup)
    started = time.perf_counter()
    assert read_file(tmp_path / "a.html").text.startswith("Bob")
    # Linear traversal takes about a second; modifying the tree in place took minutes.
    assert time.perf_counter() - started < 10


def test_html_leaves_out_comments_templates_and_declarations(tmp_path: Path):
    (tmp_path / "a.html").write_text(
        "<!doctype html><p>one<!-- no --><template>no</template> two<table><tr><td>a<td>b</table>"
    )
    assert read_file(tmp_path / "a.html").text == "one two\n\na | b"


def test_xhtml_and_a_page_like_a_file_name_are_read_without_warnings(tmp_path: Path):
    (tmp_path / "a.html").write_text('<?xml version="1.0"?><html><p>Bob</p></html>')
    (tmp_path / "b.html").write_text("b.html")
    assert [d.text for d in read_documents([tmp_path])] == ["Bob", "b.html"]


def test_rows_of_tables_become_lines(tmp_path: Path):
    (tmp_path / "a.html").write_text(
        "<table><caption>People</caption><tr><th>Name<th>Born<th>City<tr><td>Alice<br>Miller"
        "<td colspan=2000000000>1890<tr><td rowspan=2><p>Bob</p><td><td>Oslo</table>after"
    )
    assert read_file(tmp_path / "a.html").text == (
        "People\nName | Born | City\nAlice Miller | 1890\nBob | | Oslo\n\nafter"
    )


def test_tables_for_layout_keep_their_paragraphs(tmp_path: Path):
    (tmp_path / "a.html").write_text(
        "<table><tr><td><p>One.</p><p>Two.</p><td><table><tr><td>a<td>b</table></table>"
    )
    assert read_file(tmp_path / "a.html").text == "One.\n\nTwo.\n\na | b"


@pytest.mark.parametrize(
    ("data", "text"),
    [
        pytest.param("<meta charset=latin1>Grüße".encode("latin-1"), "Grüße", id="declared"),
        pytest.param("Grüße".encode(), "Grüße", id="utf8"),
        pytest.param("“Grüße”".encode("cp1252"), "“Grüße”", id="windows"),
        pytest.param("<meta charset=iso-8859-1>“5 €…”".encode("cp1252"), "“5 €…”", id="meant"),
        pytest.param("<meta charset=latin1>“Grüße”".encode(), "“Grüße”", id="really_utf8"),
        pytest.param(b"<meta charset=latin1>\x93a\x94 \x81", "“a” \x81", id="undefined_byte"),
        pytest.param("<meta charset=Shift_JIS>①髙島屋".encode("cp932"), "①髙島屋", id="japanese"),
        pytest.param("<meta charset=x-gbk>朱镕基".encode("gbk"), "朱镕基", id="chinese"),
        pytest.param("<meta charset=euc-kr>똠방각하".encode("cp949"), "똠방각하", id="korean"),
        pytest.param("<meta charset=latin1>Grüße".encode("utf-8-sig"), "Grüße", id="mark"),
        pytest.param(b"<meta charset=no-such>abc", "abc", id="unknown"),
        pytest.param(b"<meta charset=hex>abc", "abc", id="binary_codec"),
        pytest.param(b"<meta charset=punycode>abc-" + b"d" * 99, "abc-" + "d" * 99, id="punycode"),
        pytest.param(b"<meta charset=-punycode>abc-" + b"d" * 99, "abc-" + "d" * 99, id="dash"),
        pytest.param('<?xml version="1.0" encoding="utf-16"?>Grüße'.encode(), "Grüße", id="wide"),
    ],
)
def test_encoding_is_detected(tmp_path: Path, data: bytes, text: str):
    (tmp_path / "a.html").write_bytes(data)
    assert read_file(tmp_path / "a.html").text == text


@pytest.mark.slow
def test_random_bytes_are_read_or_rejected_but_never_crash(tmp_path: Path):
    rng = random.Random(7)  # noqa: S311 - reproducible damage, not cryptography
    pieces = [b"<", b">", b"<!--", b"-->", b"<table>", b"<td>", b"</tr>", b"\0", b"\xff", b"&#x0;"]
    pieces += [b"</table>", b"<title>", b"<script>", b"</p>", b"<![CDATA[", b"a", b" ", b"<?x"]
    texts = []
    for _ in range(200):
        (tmp_path / "a.html").write_bytes(b"".join(rng.choices(pieces, k=40)))
        with contextlib.suppress(UnreadableFileError):
            texts.append(read_file(tmp_path / "a.html").text)
    assert 0 < len(texts) < 200
    assert not any("<table>" in text or "\0" in text for text in texts)


def text_of(markup: str) -> str:
    return read_data(f"<body>{markup}</body>".encode(), "a.html").text


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("<ol><li>Mix<li><p>Bake</p></ol>", "1. Mix\n\n2. Bake"),
        (
            "<ol start=4><li>Mix</li><li value=9>Bake</li><li>Eat</li></ol>",
            "4. Mix|9. Bake|10. Eat",
        ),
        ("<ol type=a><li>Mix</li><li>Bake</li></ol>", "a. Mix|b. Bake"),
        ("<ol><li>Mix<ul><li>Salt</li></ul></li><li>Bake</li></ol>", "1. Mix|Salt|2. Bake"),
        ("<ul><li>Mix<ol type=I><li>Salt</li></ol></li></ul>After", "Mix|I. Salt|After"),
        ("<ol><li></li><li>Bake</li></ol>", "2. Bake"),
        ("<ol start=x><li value=-3>Mix</li></ol>", "1. Mix"),
        ("<li>No list</li>", "No list"),
        ("<ol start=0><li>Mix<li>Bake</ol>", "0. Mix|1. Bake"),
        ("<ol start=1990><li>Mix<li value=2000>Bake</ol>", "1990. Mix|2000. Bake"),
        ("<ol reversed start=7><li>Mix<li>Bake</ol>", "7. Mix|6. Bake"),
        ("<ol reversed type=a><li>Mix<ul><li>Salt</ul><li>Bake</ol>", "b. Mix|Salt|a. Bake"),
        ("<ol reversed><li>Mix<li value=9>Bake<li>Eat</ol>", "3. Mix|9. Bake|8. Eat"),
        ("<table><td><ol reversed><li>Mix<li>Bake</ol><td>x</table>", "2. Mix|1. Bake|x"),
    ],
)
def test_items_of_numbered_lists_begin_with_their_numbers(markup: str, text: str):
    found = re.sub(r"\n+", "|", text_of(markup))
    assert found == text.replace("\n\n", "|")


def test_cells_below_and_beside_merged_cells_stay_in_their_columns():
    table = (
        "<table><tr><th rowspan=2>City<th colspan=2>Sales<th>Note</tr>"
        "<tr><th>2023<th>2024<th>x</tr>"
        "<tr><td rowspan=3>Oslo<td>1<td>2</tr><tr><td>3<td>4</tr><tr><td colspan=9>5</tr>"
        "<tr><td>Rome<td>6</tr></table>"
    )
    assert text_of(table) == (
        "City | Sales | | Note\n| 2023 | 2024 | x\nOslo | 1 | 2\n| 3 | 4\n| 5\nRome | 6"
    )


def test_huge_spans_of_cells_are_limited():
    row = "<tr><td rowspan=999999999 colspan=99999999>a<td>b</tr>"
    assert len(text_of(f"<table>{row * 3}</table>")) < 2000


def test_code_keeps_its_indentation():
    code = "<p>Code:</p><pre>def f(x):\n    <b>if</b> x:\n\treturn   1\n</pre><p>End  of it."
    assert text_of(code) == "Code:\n\ndef f(x):\n    if x:\n    return 1\n\nEnd of it."
    assert text_of("<pre>  first\n    \n  second\n  </pre>") == "  first\n\n  second"
    table = "<table><tr><td><pre>a\n  b</pre></td></tr></table>"
    assert text_of(table) == "a\n  b"


def test_controls_and_folded_parts_do_not_run_together():
    markup = (
        "<details><summary>More</summary>Hidden</details><select><option>Oslo</option>"
        "<option>Rome</option></select><button>Send</button><button>Reset</button>"
    )
    assert text_of(markup).split() == ["More", "Hidden", "Oslo", "Rome", "Send", "Reset"]


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("10<sup>6</sup> or 10<sup>&minus;6</sup> m", "10^6 or 10^−6 m"),
        ("In 1990<sup>1</sup>", "In 1990^1"),
        ("In 1990<sup><a href=#1>1</a></sup>, not", "In 1990 1, not"),
        ("In 1990<a href=#1><sup>1</sup></a>, not", "In 1990 1, not"),
        ("Bob<sup id=a><a href=#1><span>[</span>1]</a></sup>.", "Bob [1]."),
        ("In 1990 <sup>[1]</sup>", "In 1990 [1]"),
        ("It cost 5.<sup>2</sup>", "It cost 5. 2"),
        ("<a href=x>About 10<sup>6</sup> bees</a>", "About 10^6 bees"),
        ("5<sup>1</sup>&frasl;<sub>2</sub> and 5<sup>1</sup>/<sub>2</sub>", "5 1⁄2 and 5 1/2"),
        ("101<sub>2</sub> CO<sub>2</sub> m<sup>2</sup>", "101_2 CO2 m2"),
        ("the 21<sup>st</sup>, 10<sup></sup>6", "the 21st, 106"),
        ("<table><tr><td>10<sup>6</sup><td><sup>2</sup></table>", "10^6 | 2"),
    ],
)
def test_raised_and_lowered_numbers_are_no_part_of_the_number_before(markup: str, text: str):
    assert text_of(markup) == text


def fraction(over: str, under: str) -> str:
    return f"<mfrac>{over}<mrow>{under}</mrow></mfrac>"


SQUARE = "<msup>\n<mi>x</mi>\n<mn>2</mn>\n</msup>"
SUM = "<mrow><mi>a</mi><mo>+</mo><mi>b</mi></mrow>"


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        (fraction("<mn>1</mn>", "<mn>2</mn>"), "1/2"),
        (f"<mn>5</mn>{fraction('<mn>1</mn>', '<mn>2</mn>')}", "5 1/2"),
        (fraction(SUM, SQUARE), "(a+b)/(x^2)"),
        (fraction("<mn>1</mn>", fraction("<mn>1</mn>", "<mn>2</mn>")), "1/(1/2)"),
        (f"<mn>3</mn><msqrt>{fraction('<mn>1</mn>', '<mn>2</mn>')}</msqrt>", "3√(1/2)"),
        (f"\n{SQUARE}\n<mo>=</mo>\n<mn>4</mn>", "x^2=4"),
        ("<msup><mn>10</mn><mrow><mo>−</mo><mn>6</mn></mrow></msup>", "10^−6"),
        (f"<msup><mrow><mo>(</mo>{SUM}<mo>)</mo></mrow><mn>2</mn></msup>", "(a+b)^2"),
        ("<msubsup><mi>x</mi><mi>i</mi><mn>2</mn></msubsup>", "x_i^2"),
        ("<msup><mi>f</mi><mo>′</mo></msup>", "f′"),
        (f"<msqrt><mn>2</mn></msqrt><mo>+</mo><msqrt>{SUM}</msqrt>", "√2+√(a+b)"),
        ("<mroot><mn>27</mn><mn>3</mn></mroot>", "27^(1/3)"),
        (f"<munderover><mo>∑</mo>{SUM}<mi>n</mi></munderover>", "∑_(a+b)^n"),
        ("<mtable><mtr><mtd>1</mtd><mtd>0</mtd></mtr><mtr><mtd>2</mtd></mtr></mtable>", "1 0; 2"),
        (f"<semantics>{SQUARE}<annotation>x^{{2}}</annotation></semantics>", "x^2"),
    ],
)
def test_formulas_keep_their_structure(markup: str, text: str):
    assert text_of(f"<p>If <math>{markup}</math>, go.") == f"If {text}, go."


@pytest.mark.slow
def test_a_deep_formula_is_read_in_linear_time():
    started = time.perf_counter()
    assert text_of("<math>" + "<msup><mi>x</mi>" * 20_000).startswith("x^(x^(x")
    assert time.perf_counter() - started < 10


def test_a_formula_at_the_start_of_an_item_stands_behind_its_number():
    markup = "<ol><li><math><msqrt><mi>x</mi></msqrt></math> grows</ol>"
    assert text_of(markup) == "1. √x grows"


def test_a_formula_without_end_ends_with_its_paragraph():
    assert text_of("<p>If <math><mi>a</mi><p>It <b>is</b> so.") == "If a\n\nIt is so."


def test_deleted_text_is_left_out_within_its_paragraph():
    markup = "<p>It costs <del>99 €<br>or</del> <ins>79 €</ins>, <s>sold</s>."
    assert text_of(markup) == "It costs\n79 €, sold."
    assert text_of("<del>One<p>Two <del>three</p><p>Four</p>") == "Two\n\nFour"


@pytest.mark.parametrize(
    "markup",
    [
        "<ruby>東京<rt>とうきょう</rt></ruby>に行く",
        "<ruby>東<rp>(</rp><rt>とう</rt><rp>)</rp>京<rt>きょう</ruby>に行く",
        "<ruby>東京<rt>とう<rt>きょう<rtc>Tokyo</ruby>に行く",
        "東京<rt>に行く",
    ],
)
def test_words_are_read_without_ruby_text(markup: str):
    assert text_of(markup) == "東京に行く"


def test_ruby_text_without_end_hides_only_its_own_paragraph():
    assert text_of("<p><ruby>東<rt>とう<p>Next.</p>Last.") == "東\n\nNext.\nLast."
