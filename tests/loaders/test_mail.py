"""E-mails: fields, texts in several forms, attachments, and mailboxes."""

from __future__ import annotations

import contextlib
import random
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
