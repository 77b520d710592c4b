"""The main content of pages, without what surrounds it."""

from __future__ import annotations

import re

import pytest

from e2graphrag_integrations.loaders import read_data

ARTICLE = "<h2>Storm</h2><p>Anna <br>built.<img src=x> </p><table><tr><td>a<td>b</table>"
READ = "Storm Anna built. a | b"
AROUND = {
    "nav": "<nav><ul><li>Home<li>Shop</ul></nav>",
    "header": "<header><a href=/>Logo</a><input><p>Slogan</header>",
    "footer": "<footer>Imprint<br>2024</footer>",
    "aside": "<aside><h3>Related</h3><article>Other</article></aside>",
    "role": "<div role=navigation>Home</div><div role='banner'>Logo</div>",
    "cookie_class": "<div class='cookie-banner x'><p>We use cookies.<button>OK</button></div>",
    "cookie_id": "<section id=CookieConsent>We use cookies.</section>",
    "cookie_token": "<div class=cookies>We use cookies.</div>",
    "cookie_state": "<div class='cookie-notice is-visible' id=x><p>We use cookies.</div>",
    "cookie_bar": "<div class=CookieBar>We use cookies.</div>",
    "cookie_classes": "<div class='cookie notice'>We use cookies.</div>",
    "consent_popup": "<div id=gdprConsentPopup><h2>Consent</h2></div>",
    "vendor": "<div id=onetrust-consent-sdk><h2>Privacy</h2></div>",
    "dialog": "<dialog open>Subscribe</dialog>",
    "breadcrumb": "<ol class='breadcrumb'><li>Home</ol>",
    "old_page": "<div id=footer>Imprint</div><div id=sidebar>Links</div>",
}


def text_of(markup: str) -> str:
    return " ".join(read_data(markup.encode(), "a.html").text.split())


@pytest.mark.parametrize("name", AROUND)
def test_what_surrounds_the_content_is_dropped(name: str):
    assert text_of(f"<body>{AROUND[name]}<div>{ARTICLE}</div>{AROUND[name]}</body>") == READ


@pytest.mark.parametrize("tag", ["main", "div role=main"])
def test_only_the_main_element_is_read_if_it_has_text(tag: str):
    end = tag.partition(" ")[0]
    everything = "".join(AROUND.values())
    page = f"<div>Menu</div>{everything}<{tag}>{everything}{ARTICLE}</{end}><div>Ads</div>"
    # Headers within the main element belong to it.
    assert text_of(page) == f"Logo Slogan {READ}"
    assert text_of(f"<title>T</title><div>Anna</div><{tag}> </{end}>") == "Anna"


def test_headers_of_articles_and_sections_and_footers_of_quotes_stay():
    page = (
        "<article><header><h1>Storm</h1><nav>Up</nav></header>Rain.<footer>Tags</footer></article>"
    )
    assert text_of(page) == "Storm Rain."
    assert text_of("<section><header><h2>Calm</h2></header>Sun.</section>") == "Calm Sun."
    assert text_of("<blockquote>I came.<footer>Caesar</footer></blockquote>") == "I came. Caesar"


@pytest.mark.parametrize("name", AROUND)
def test_everything_is_kept_if_nothing_else_remains(name: str):
    assert text_of(f"<body>{AROUND[name]}</body>")


def test_the_heading_of_a_banner_is_the_title_of_a_page_without_one():
    page = "<header><h1>The <b>Harbor</b></h1></header><p>Anna built.</p>"
    document = read_data(page.encode(), "a.html")
    assert (document.title, document.text) == ("The Harbor", "Anna built.")
    assert read_data(f"<title>T</title>{page}".encode(), "a.html").title == "T"


@pytest.mark.parametrize(
    "page",
    [
        "<body class='cookie-consent-open'><p>Anna.</body>",
        "<p class=consent-form-guide>Anna.</p>",
        "<div class='privacy-policy'>Anna.</div>",
        "<header>Logo<main>Anna.</main>",
        "<nav>Home<main>Anna.</main>",
        "<div class=menu>Anna.</div>",
        "<div class=card-footer>Anna.</div>",
    ],
)
def test_content_with_similar_names_or_without_ends_is_kept(page: str):
    assert text_of(page) == "Anna."


@pytest.mark.parametrize(
    "page",
    [
        "<h1>Privacy</h1><div class=privacy-notice>Kept for 30 days.</div>Contact {0}",
        "<section class='informed consent'><p>The patient agrees.</p></section>{0}",
        "<main><div class='post category-cookies'>Bake.</div>{0}</main>",
        "<main><section class=cookies><h2>Oatmeal</h2>Bake.</section>{0}</main>",
        "<article><div id=cookie-box><h3>A</h3><div class=cookies>Bake.</div></div>{0}</article>",
        "<div class=has-cookie-banner>Text.</div>{0}",
        "<div class='post tag-cookie-law tag-onetrust'>Text.</div>{0}",
    ],
)
def test_content_is_kept_although_its_name_is_like_that_of_a_cookie_notice(page: str):
    # The rest of the page is longer, so the size of the element does not speak for it.
    markup = page.format("<p>" + "Anna built a ship. " * 20)
    assert text_of(markup) == text_of(re.sub(" (class|id)=('.*?'|[^>]*)", "", markup))


@pytest.mark.parametrize("name", ["cookies", "cookie-info", "cookie-consent"])
def test_what_holds_most_of_the_text_is_no_cookie_notice(name: str):
    script = "<script>" + "x" * 5000 + "</script>"
    inner = f"{script}We bake. <div class=cookies>Oatmeal.</div>"
    page = f"<nav>{'Menu ' * 50}</nav><div id={name}>{inner}</div>"
    assert text_of(f"{page}<p>Call us.</p>") == "We bake. Oatmeal. Call us."
    assert text_of(f"{page}<p>{'Call us. ' * 9}</p>") == ("Call us. " * 9).strip()


def test_sections_fit_the_text_without_what_surrounds_it():
    page = f"<nav><h2>Menu</h2>Home</nav><h1>Harbor</h1>{ARTICLE}<footer><h2>More</h2></footer>"
    document = read_data(page.encode(), "a.html")
    found = [(one[2]["headings"], document.text[one[0] : one[1]][:6]) for one in document.segments]
    assert found == [(["Harbor"], "Harbor"), (["Harbor", "Storm"], "Storm\n")]
