"""E-mails: fields, texts in several forms, attachments, and mailboxes."""

from __future__ import annotations

import contextlib
import random
import sys
from email.message import EmailMessage

import pytest

from e2graphrag_integrations import Segment
from e2graphrag_integrations.errors import UnreadableFileError
from e2graphrag_integrations.loaders import read_data


def make_mail(
    text: str = "Liebe Alice,\n\nGrüße aus Köln.\n", subject: str = "Grüße"
) -> EmailMessage:
    mail = EmailMessage()
    mail["Subject"], mail["From"] = subject, "Jörg Müller <j@example.org>"
    mail["Date"] = "Mon, 06 May 2024 23:30:00 +0200"
    mail.set_content(text)
    return mail


FIELDS = "Subject: Grüße\nFrom: Jörg Müller <j@example.org>\nDate: Mon, 06 May 2024 23:30:00 +0200"


def test_an_email_is_read_with_its_fields_and_the_names_of_attachments():
    mail = make_mail()
    mail.add_alternative("<p>Liebe <b>Alice</b></p>", subtype="html")
    mail.add_attachment(b"%PDF", maintype="application", subtype="pdf", filename="Größe.pdf")
    document = read_data(bytes(mail), "a.eml")
    assert (document.title, dict(document.metadata)) == ("Grüße", {"date": "2024-05-06"})
    assert document.text == (
        f"{FIELDS}\n\nLiebe Alice,\n\nGrüße aus Köln.\n\nAttachment: Größe.pdf"
    )


@pytest.mark.parametrize("plain", [None, " \n"], ids=["alone", "beside_empty_text"])
def test_an_email_in_html_is_read_without_its_markup(plain: str | None):
    mail = make_mail(plain or "")
    if plain is None:
        mail.set_content("<p>Hello <b>Bob</b>.</p><p>Bye.</p>", subtype="html")
    else:
        mail.add_alternative("<p>Hello <b>Bob</b>.</p><p>Bye.</p>", subtype="html")
    assert read_data(bytes(mail), "a.eml").text == f"{FIELDS}\n\nHello Bob.\n\nBye."


def test_texts_between_and_emails_in_attachments_are_read():
    outer = make_mail("First.\n", "Outer")
    outer.add_attachment(make_mail("Inner text.\n"))
    outer.add_attachment(b"x", "image", "png", filename="logo.png", cid="<logo>")
    last = EmailMessage()
    last.set_content("Last.\n")
    outer.attach(last)
    text = read_data(bytes(outer), "a.eml").text
    assert text.startswith("Subject: Outer\n")
    assert text.endswith(f"First.\n\n{FIELDS}\n\nInner text.\n\nLast.")


@pytest.mark.parametrize(
    ("charset", "codec", "text"),
    [
        ("iso-8859-1", "cp1252", "It’s “5 €”"),
        ("us-ascii", "cp1252", "It’s “5 €”"),
        ("us-ascii", "utf-8", "It’s “5 €”"),
        ("gb2312", "gbk", "朱镕基"),
        ("ks_c_5601-1987", "cp949", "똠방각하"),
        ("shift_jis", "cp932", "①髙島屋"),
    ],
)
def test_an_encoding_is_read_as_it_is_meant(charset: str, codec: str, text: str):
    head = f"Subject: A\nContent-Type: text/plain; charset={charset}\n\n"
    document = read_data(head.encode() + text.encode(codec), "a.eml")
    assert document.text == f"Subject: A\n\n{text}"


def joined(kind: str, *parts: str) -> str:
    """Return a part with parts; each of these has its headers, an empty line and its text."""
    boundary = f"b{len(parts)}{sum(map(len, parts))}"
    inner = "".join(f"--{boundary}\n{part}\n" for part in parts)
    return f'Content-Type: multipart/{kind}; boundary="{boundary}"\n\n{inner}--{boundary}--\n'


def with_field(part: str, field: str) -> str:
    return part.replace("\n\n", f"\n{field}\n\n", 1)


PLAIN = "Content-Type: text/plain\n\nHello."
PAGE = "Content-Type: text/html\n\n<p>Hello.</p>"
EMPTY = "Content-Type: text/html\n\n<p> </p>"
CALENDAR = "Content-Type: text/calendar\n\nBEGIN:VCALENDAR"
STUB = "Content-Type: text/plain\n\nOpen: https://x.org"
LONG_PAGE = "Content-Type: text/html\n\n<p>Kayaks cost 199 euros until May.</p>"
PICTURE = "Content-Type: image/png\nContent-ID: <logo>\n\nx"
PDF = "Content-Type: application/pdf; name=a.pdf\n\nx"
ATTACHED = "Content-Disposition: attachment; filename=a.pdf"
NAMED = "Attachment: a.pdf"


@pytest.mark.parametrize(
    ("mail", "text"),
    [
        (joined("alternative", PAGE, CALENDAR), "Hello."),
        (joined("alternative", PAGE, EMPTY, CALENDAR), "Hello."),
        (joined("alternative", joined("related", PAGE, PICTURE), CALENDAR), "Hello."),
        (joined("alternative", CALENDAR), "BEGIN:VCALENDAR"),
        (joined("alternative", PLAIN, joined("mixed", PAGE, PDF)), f"Hello.\n\n{NAMED}"),
        (joined("alternative", joined("mixed", PAGE, PDF), EMPTY), f"Hello.\n\n{NAMED}"),
        (joined("alternative", PLAIN, joined("alternative", PAGE, joined("mixed", PDF))),
         f"Hello.\n\n{NAMED}"),
        (joined('related; start="<1>"', EMPTY, with_field(PAGE, "Content-ID: <1>")), "Hello."),
        (joined("related", PICTURE, PAGE), "Hello."),
        (joined('related; start="<2>"', PAGE, PICTURE), "Hello."),
        (PAGE.replace("html", 'html; name="mail.html"'), "Hello."),
        (with_field(PLAIN, "Content-Disposition: inline; filename=a.txt"), "Hello."),
        (joined("mixed", PLAIN, with_field(PDF, "Content-Disposition: inline")),
         f"Hello.\n\n{NAMED}"),
        (joined("mixed", PLAIN, with_field(PAGE, ATTACHED)), f"Hello.\n\n{NAMED}"),
        (joined("alternative", STUB, LONG_PAGE), "Kayaks cost 199 euros until May."),
        (joined("alternative", STUB, EMPTY, joined("mixed", LONG_PAGE, PDF), EMPTY),
         f"Kayaks cost 199 euros until May.\n\n{NAMED}"),
        (joined("alternative", PLAIN, LONG_PAGE), "Kayaks cost 199 euros until May."),
        (joined("alternative", STUB, EMPTY, CALENDAR), "Open: https://x.org"),
        (joined("alternative", STUB, CALENDAR), "Open: https://x.org"),
        (joined("alternative", STUB, PAGE), "Open: https://x.org"),
        (joined("alternative", STUB.replace("Open", "Kayaks cost 199 euros"), LONG_PAGE),
         "Kayaks cost 199 euros: https://x.org"),
    ],
)  # fmt: skip
def test_the_text_is_found_among_the_parts(mail: str, text: str):
    assert read_data(f"Subject: A\n{mail}".encode(), "a.eml").text == f"Subject: A\n\n{text}"


def test_a_short_text_is_read_if_the_page_beside_it_cannot_be(monkeypatch):
    monkeypatch.setitem(sys.modules, "lxml", None)
    mail = joined("alternative", STUB, joined("mixed", LONG_PAGE, PDF))
    text = read_data(f"Subject: A\n{mail}".encode(), "a.eml").text
    assert text == f"Subject: A\n\nOpen: https://x.org\n\n{NAMED}"


@pytest.mark.parametrize(
    ("charset", "codec", "name"),
    [
        ("utf-8", "latin-1", "Grüße Jörg"),
        ("iso-8859-1", "cp1252", "Grüße – Jörg"),
        ("us-ascii", "utf-8", "Grüße – Jörg"),
        ("utf-16", "latin-1", "Grüße"),
        ("koi8-r", "koi8-r", "Привет Иван"),
        ("gb2312", "gbk", "朱镕基"),
    ],
)
def test_letters_of_fields_that_are_not_encoded_are_read(charset: str, codec: str, name: str):
    body = joined("mixed", PLAIN.replace("plain", f"plain; charset={charset}"), PDF)
    body = body.replace("Hello.", "") if charset == "utf-16" else body
    mail = f"Subject: {name},\n =?utf-8?q?=C3=A9?=\n" + body.replace("a.pdf", f'"{name}"')
    text = read_data(mail.encode(codec), "a.eml").text
    assert text.replace("Hello.\n\n", "") == f"Subject: {name}, é\n\nAttachment: {name}"


def test_forms_without_text_in_each_other_are_read_once_each():
    mail = EMPTY
    for _ in range(30):
        mail = joined("alternative", mail, PDF, EMPTY)
    assert read_data(f"Subject: A\n{mail}".encode(), "a.eml").text == "Subject: A"


def test_lines_of_flowed_text_are_joined_without_the_space_if_it_is_to_be_deleted():
    head = "Subject: A\nContent-Type: text/plain; charset=utf-8; format=Flowed"
    body = "\n\n我们见到了张 \n三。\n\nBye"
    for option, text in (("; delsp=Yes", "张三"), ("; delsp=no", "张 三"), ("", "张 三")):
        document = read_data(f"{head}{option}{body}".encode(), "a.eml")
        assert document.text == f"Subject: A\n\n我们见到了{text}。\n\nBye"


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        (b"text/plain; charset=iso-8859-1", "Grüße".encode("latin-1")),
        (b"text/plain", "Viele Grüße aus München, Jörg".encode("latin-1")),
        (b"text/plain; charset=unknown", "Grüße".encode()),
        (b"text/plain; charset=us-ascii", "Grüße".encode()),
        (b"text/plain; charset=punycode", "Grüße".encode()),
        (b"text/plain; format=flowed", "Viele \nGrüße".encode()),
    ],
)
def test_the_encoding_of_an_email_may_be_wrong_or_missing(content_type: bytes, body: bytes):
    mail = b"\xef\xbb\xbfSubject: A\r\nContent-Type: " + content_type + b"\r\n\r\n" + body
    text = read_data(mail, "a.eml").text.removeprefix("Subject: A\n\n")
    assert text in {"Grüße", "Viele Grüße", "Viele Grüße aus München, Jörg"}


def test_a_page_saved_in_one_file_is_read_without_its_styles():
    page = EmailMessage()
    page["Subject"] = "The harbor"
    page.set_content("<h1>The harbor</h1><p>Grüße</p>", subtype="html")
    page.add_related("p { color: red }", "css", cid="<style>")
    page.add_related(b"x", "image", "png", cid="<logo>")
    document = read_data(bytes(page), "a.mhtml")
    assert document.title == "The harbor"
    assert document.text == "Subject: The harbor\n\nThe harbor\n\nGrüße"


def test_each_email_of_a_mailbox_is_a_segment():
    first, second = bytes(make_mail("One.\n\n>From here on.\n")), b"Subject: Two\r\n\r\nText.\r\n"
    start = b"From j@example.org Mon May  6 23:30:00 2024"
    document = read_data(start + b"\n" + first + b"\n" + start + b"\r\n" + second, "a.mbox")
    segments = [Segment._make(segment) for segment in document.segments]
    assert [dict(one.metadata) for one in segments] == [
        {"message": 1, "date": "2024-05-06", "headings": ["Grüße"]},
        {"message": 2, "headings": ["Two"]},
    ]
    assert [document.text[one.start : one.end] for one in segments] == [
        f"{FIELDS}\n\nOne.\n\nFrom here on.\n\n",
        "Subject: Two\n\nText.\n\n",
    ]


BEFORE = b"From a@x Mon May  6 23:30:00 2024\nSubject: One\n\n"


@pytest.mark.parametrize(
    "line",
    [
        "From Monday on, the office is in Kiel.\nPlease tell Bob.",
        "From Monday on, the office is in Kiel.\nNote: it is closed.",
        "From 6 May 2024 23:30 on, we sail.\nNote: it is dark.",
        "From here on.",
    ],
)
def test_a_paragraph_that_begins_like_the_start_of_an_email_is_text(line: str):
    document = read_data(BEFORE + b"Dear all,\n\n" + line.encode() + b"\n", "a.mbox")
    assert document.text == f"Subject: One\n\nDear all,\n\n{line}\n\n"


@pytest.mark.parametrize(
    ("gap", "line", "field"),
    [
        ("\n", "From b@x", "x-status: O"),
        ("\n", "From b@x", "RECEIVED: by x"),
        ("\n", "From b@x Mon, 6 May 2024 23:30:00 +0200", "Organization: x"),
        ("\n", "From b@x Mon May 06 23:30:00 2024", "\nOrganization: x"),
        ("", "From - Mon May 06 23:30:00 2024", "Organization: x"),
        ("", "From 1@xxx Mon May 06 23:30:00 +0000 2024", ">From b@y remote from z\nTo: b@x"),
        ("", "From b@x Mon May  6 23:30 CEST 2024", "To: b@x"),
        ("", "From b@x 2024-05-06T23:30:00Z", "To: b@x"),
    ],
)
def test_emails_of_a_mailbox_are_divided_with_or_without_a_line_between(
    gap: str, line: str, field: str
):
    for end in ("\n", "\r\n"):
        mail = f"Hello.\n{gap}{line}\n{field}\nSubject: Two\n\nBye.\n".replace("\n", end)
        document = read_data(BEFORE + mail.encode(), "a.mbox")
        assert [segment[2]["headings"] for segment in document.segments] == [["One"], ["Two"]]
        assert "From" not in document.text


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.eml", b""),
        ("a.eml", b"Just a text.\n"),
        ("a.eml", b"\0" * 100),
        ("a.mbox", b"Subject: no start\n\nText."),
        ("a.mbox", b""),
    ],
)
def test_other_files_are_refused(name: str, data: bytes):
    with pytest.raises(UnreadableFileError, match=r"is not a readable (e-mail|mailbox)"):
        read_data(data, name)


@pytest.mark.slow
def test_deeply_nested_emails_end():
    numbers = range(2000)
    parts = b"".join(
        b"Content-Type: multipart/mixed; boundary=b%d\n\n--b%d\n" % (n, n) for n in numbers
    )
    inner = b"".join(b"Subject: s%d\nContent-Type: message/rfc822\n\n" % n for n in numbers)
    for data in (b"Subject: A\n" + parts, inner):
        with contextlib.suppress(UnreadableFileError):
            assert len(read_data(data, "a.eml").text) < 1000


@pytest.mark.slow
def test_random_damage_to_an_email_raises_only_unreadable_file():
    rng = random.Random(7)  # noqa: S311 - reproducible damage, not cryptography
    mail = make_mail()
    mail.add_alternative("<p>Liebe <b>Alice</b></p>", subtype="html")
    mail.add_attachment(make_mail("Inner text.\n"))
    intact = bytes(mail)
    for _ in range(200):
        damaged = bytearray(intact)
        for _ in range(6):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        with contextlib.suppress(UnreadableFileError):
            read_data(bytes(damaged), "a.eml")
