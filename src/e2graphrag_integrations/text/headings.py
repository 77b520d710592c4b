"""Headings and titles: found in first lines and Markdown, told from templates, dates and files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath, PureWindowsPath
from typing import NamedTuple
from urllib.parse import unquote

from e2graphrag_integrations.text.letters import UNSPACED

MAX_HEADING_WORDS = 12
"""Maximum number of words in a heading."""

MAX_LEVEL = 6
"""Deepest level of a heading, in Markdown and HTML."""

MAX_HEADING_LETTERS = 30
"""Maximum number of letters in a heading in a script without spaces between words."""

_END_PUNCTUATION = frozenset(".!?;,…。！？；，、")

MAX_WIDTH = 0.6
"""Maximum length of a heading relative to the longest other line. The first line of hard-wrapped
prose is about as long as the others."""

_UNSPACED_LETTER = re.compile(f"[{UNSPACED}]")
_ATX = re.compile(r" {0,3}(#{1,6})[ \t]+(.*?)(?:[ \t]+#+)?[ \t]*")
_UNDERLINE = re.compile(r" {0,3}(=+|-{2,})[ \t]*")
_FENCE = re.compile(r" {0,3}(`{3,}(?=[^`]*$)|~{3,})(.*)", re.DOTALL)
_COMMENT = re.compile(r" {0,3}<!--")
MAY_HAVE_MARKDOWN = re.compile(r"^ {0,3}(?:#{1,6}[ \t]|=+[ \t]*$|-{2,}[ \t]*$)", re.MULTILINE)
_LINK = re.compile(r"!?\[([^\[\]]*)\]\([^()]*\)")
_MAX_LINE = 400
"""Maximum length of a line that can be a Markdown heading, with the addresses of its links."""

_FRONT_MATTER = re.compile(
    r"(---|\+\+\+)[ \t]*\r?\n"
    r"(?=[\w'\"][\w.'\" -]{0,60}[:=])"  # a separator of slides has no key below it
    r"(?:(?:[\w'\"][\w.'\" -]{0,60}[:=]|[ \t]|- |#|\[)[^\n]*\n|\r?\n)*?"
    r"\1[ \t]*(?:\r?\n|\Z)"
)


class Heading(NamedTuple):
    """A heading in a text.

    Attributes:
        name: The heading without markup.
        level: Its level: 1 is the highest.
        start, end: The span of its line, and of the line below it if that underlines it.
    """

    name: str
    level: int
    start: int
    end: int


def front_matter(text: str) -> str:
    r"""Return the metadata in YAML or TOML with which a Markdown text begins; empty without any.

    >>> front_matter("---\ntitle: Saws\n---\nThey cut.")
    '---\ntitle: Saws\n---\n'
    """
    found = _FRONT_MATTER.match(text)
    return "" if found is None else found[0]


def first_line_heading(text: str) -> str | None:
    r"""Return the first line of a text if it reads as a heading, without surrounding whitespace.

    A heading has at most 12 words (30 letters in a script without spaces), does not end like a
    sentence, is much shorter than the longest of the following lines, and is not continued in
    lowercase.

    >>> first_line_heading("Jeff Porcaro\nJeffrey Thomas Porcaro was an American drummer.")
    'Jeff Porcaro'
    >>> first_line_heading("It was a long line that goes on\nin the next one.") is None
    True
    """
    line, newline, rest = text.lstrip().partition("\n")
    line, rest = line.strip(), rest.lstrip()
    if not newline or not line or not rest:
        return None
    ends_like_sentence = line[-1] in _END_PUNCTUATION
    if ends_like_sentence or rest[0].islower() or is_too_long(line):
        return None
    longest = max(len(other) for other in rest.split("\n"))
    return line if len(line) <= MAX_WIDTH * longest else None


def is_too_long(line: str) -> bool:
    """Return whether a line has more words, or letters of such a script, than a heading has."""
    letters = sum(1 for _ in _UNSPACED_LETTER.finditer(line))
    return len(line.split()) > MAX_HEADING_WORDS or letters > MAX_HEADING_LETTERS


def markdown_headings(text: str) -> Iterator[Heading]:
    r"""Yield the headings of a Markdown text, except in code, comments and its front matter.

    Code stands between fences: a line with at least three of a character, and one with at least as
    many of it and nothing else. A comment is a paragraph of its own.

    >>> [(h.name, h.level) for h in markdown_headings("# Tools\n\nSaws\n----\n\nThey cut.")]
    [('Tools', 1), ('Saws', 2)]
    """
    open_fence = ""
    is_comment = False
    start, last_comment = len(front_matter(text)), text.rfind("-->")
    previous = (start, "")
    for line in text[start:].splitlines(keepends=True):
        bare = line.rstrip("\r\n")
        if len(bare) > _MAX_LINE:
            bare = ""
        fence = None if is_comment else _FENCE.match(bare)
        if fence is not None and not open_fence:
            open_fence, bare = fence[1], ""
        elif fence is not None and fence[1].startswith(open_fence) and not fence[2].strip():
            open_fence, bare = "", ""
        elif not open_fence and (is_comment or _COMMENT.match(line)):
            # A comment without an end would hide all that follows.
            is_comment, bare = "-->" not in line and start < last_comment, ""
        if not open_fence:
            found = _heading(bare, start, *previous)
            if found is not None:
                yield found
                bare = ""
        start, previous = start + len(line), (start, bare)


def _heading(line: str, start: int, previous_start: int, previous: str) -> Heading | None:
    """Return the heading that ends with a line, if there is one."""
    level, end = None, start + len(line)
    atx = _ATX.fullmatch(line)
    if atx is not None:
        level, name = len(atx[1]), atx[2]
    elif (underline := _UNDERLINE.fullmatch(line)) is not None:
        level, name, start = (1 if underline[1][0] == "=" else 2), previous, previous_start
    if level is None:
        return None
    name = _LINK.sub(r"\1", name).strip("*_` \t")
    is_short = 0 < len(name.split()) <= MAX_HEADING_WORDS
    return Heading(name, level, start, end) if is_short else None


_FILE_SUFFIX = (
    r"\.(?:docx?|pdf|pptx?|xlsx?|odt|odp|rtf|txt|md|markdown|rst|html?|xhtml|tex|dvi|ps|eps|indd"
    r"|qxd|pages|key|csv|tsv|json|xml|epub|jpe?g|png|tiff?)"
)
_FILE_NAME = re.compile(rf"\S.*{_FILE_SUFFIX}\s*", re.IGNORECASE)
_PROGRAM = re.compile(
    r"(?:Microsoft|MS)\s+(?:Word|PowerPoint|Excel|Office\s\w+)\s+-\s", re.IGNORECASE
)
_TEMPLATE = re.compile(
    r"(?:(?:untitled|unbenannt|sans titre|sin t[ií]tulo|no title|unknown|title|none|null|n/a"
    r"|documento?|dokument|power\s?point[ -]presentation|pr[eé]sentation|präsentation|slide|sheet"
    r"|book|chapter|page|scan|image|img|new (?:document|page|presentation)|blank)"
    r"[\s_#-]*(?:\d+|\(\d+\))?)",
    re.IGNORECASE,
)
_ID = re.compile(
    r"(?:doi:\s*)?10\.\d{4,}/\S+|\w+://\S+|www\.\S+|[0-9a-f]{8,}(?:-[0-9a-f]{4,})*|[^\s\d]*+\d[^\s_]*+_\S*",
    re.IGNORECASE,
)
_MONTH = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?"
    r"|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\.?"
)
_DAY = r"\d{1,2}(?:st|nd|rd|th)?\.?"
_DATE = re.compile(
    rf"(?:\w+day,?\s+)?(?:{_MONTH}\s+{_DAY}(?:,?\s+\d{{4}})?|{_DAY}\s+{_MONTH}(?:,?\s+\d{{4}})?"
    rf"|{_MONTH},?\s+\d{{4}})",
    re.IGNORECASE,
)
_CHINESE_TEMPLATE = re.compile(
    r"(?:(?:无标题|未命名|未知|空白|新建)(?:文档|文件|页|演示文稿|工作簿|文本文档)?|文档|文件|演示文稿|工作簿|幻灯片"
    r"|無標題|未命名文件|簡報|投影片|第[\d一二三四五六七八九十百]+[页頁])[\s_#-]*(?:\d+|[(（]\d+[)）])?"
)
_CHINESE_DATE = re.compile(r"(?:\d{2,4}年)?\d{1,2}月(?:\d{1,2}[日号號])?|\d{2,4}年")
_LETTER = re.compile(r"[^\W\d_]")
_YEAR = re.compile(r"\d{1,4}")

_NUMBER = re.compile(
    r"(?:(?:chapter|section|part|appendix|annex|article|step|figure|table)\s+)?"
    r"(?:\d+(?:\.\d+)*|[ivxlc]+|[a-z])(?:[.):]+|\b)\s*(?:[-–—:]\s*)?",
    re.IGNORECASE,
)
_CHINESE_NUMBER = re.compile(
    r"第[〇零一二三四五六七八九十百千两\d]+[章节節回篇卷部编編集讲講条條课課](?:分)?[\s\u3000:：、.．-]*"
    r"|[(（]?[一二三四五六七八九十\d]+[)）]?[、.．]\s*"
)
_CHINESE_STRUCTURE = frozenset(
    """
    摘要 关键词 關鍵詞 目录 目錄 前言 序 序言 自序 引言 导言 導言 绪论 緒論 概述 概要 概况 概況
    简介 簡介 介绍 介紹 背景 历史 歷史 沿革 正文 方法 结果 結果 讨论 討論 分析 结论 結論 结语
    結語 总结 總結 小结 小結 后记 後記 致谢 致謝 附录 附錄 注释 註釋 脚注 腳註 参考 參考
    参考文献 參考文獻 参考资料 參考資料 参见 參見 外部链接 外部連結 延伸阅读 延伸閱讀 相关条目
    相關條目 说明 說明 定义 定義 名称 名稱 词源 詞源 生平 早年 个人生活 個人生活 职业生涯 荣誉
    榮譽 作品 影响 影響 评价 評價 争议 爭議 剧情 劇情 角色 演员 演員 安装 安裝 使用 用法 配置
    示例 例子 练习 練習 习题 習題 常见问题 常見問題 更新日志 版本 许可 許可 联系 聯繫 其他 其它
    楔子 尾声 尾聲
    """.split()
)
"""Chinese headings that name a part of a text, and not a subject."""

_STRUCTURE = frozenset(
    """
    abstract acknowledgements acknowledgments advantages answer answers api appendices appendix
    applications background bibliography biography career changelog comments conclusion conclusions
    configuration contact contents definition definitions description details disadvantages
    discussion download early life epilogue etymology evaluation example examples exercises
    experiments extract faq features figures footnotes foreword further reading future work general
    glossary history index information installation install introduction legacy license limitations
    links see also external links main manual menu method methodology methods more motivation name
    navigation news note notes objectives options origin other outline overview parameters personal
    plot preface preliminaries problem problems process prologue properties publications purpose
    quickstart quick start readme reception recommendations reference references related related
    work requirements research resources result results returns reviews search security setup
    solution solutions source sources structure subjects summary support table of contents tables
    terminology test tests theory topics troubleshooting tutorial types uses usage use version works
    """.split()
)
"""Words of headings that name a part of a text, and not a subject."""

_FUNCTION_WORDS = frozenset(
    "a an and as at by de del der des die du for from in la le les of on or the to und van von "
    "vs with".split()
)
_DRAFT_WORD = re.compile(
    r"v\d+|r\d+|final|draft|copy|kopie|new|old|tmp|temp|test|scan|img|image|dsc|screenshot|file"
    r"|export|output|backup|version|rev(?:ision)?|edited|signed|readme|changelog|license|index|main"
    r"|notes?|docs?|page|part|chapter",
    re.IGNORECASE,
)
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]+://", re.IGNORECASE)
_WORDS_OF_FILES = re.compile(r"[_+\s]+|(?<=[a-z]{3})(?=[A-Z]|(?:19|20)\d\d(?!\d))")
"""What separates the words of a file name."""

_PATH_PARTS = 3
"""Number of parts of a path that describe a file: its name and two folders. Those above are about
all files or the machine."""

_HASH = re.compile(r"(?=\D*\d)[0-9a-f-]{16,}", re.IGNORECASE)
_MAX_PATH = 1000
_SHORT_NUMBER = 2
"""Maximum number of digits of a number in a file name that is a name, as in "Apollo 13.pdf"."""


def is_junk_title(title: str) -> bool:
    """Return whether a title says nothing about the text: a template, a date, an id or a file.

    >>> [is_junk_title(t) for t in ("Microsoft Word - a.doc", "untitled", "Dune (novel)", "1984")]
    [True, True, False, False]
    """
    title = " ".join(title.split())
    if _YEAR.fullmatch(title):
        return False
    if not _LETTER.search(title) or _PROGRAM.match(title):
        return True
    return any(
        pattern.fullmatch(title) is not None
        for pattern in (_TEMPLATE, _FILE_NAME, _ID, _DATE, _CHINESE_TEMPLATE, _CHINESE_DATE)
    )


def section_name(heading: str) -> str | None:
    """Return the name in a section heading, without its number; None if it has no name.

    >>> [section_name(h) for h in ("3.1 The Palace", "Chapter 3", "1.2 Results", "Weena")]
    ['The Palace', None, None, 'Weena']
    >>> [section_name(h) for h in ("第三章 赤壁之战", "第三章", "一、简介")]
    ['赤壁之战', None, None]
    """
    chinese = _CHINESE_NUMBER.match(heading)
    if chinese is not None:
        heading = heading[chinese.end() :]
    if heading.strip() in _CHINESE_STRUCTURE:
        return None
    number = _NUMBER.match(heading)
    name = heading[number.end() :] if number is not None else heading
    if number is not None and number.group().strip().isalpha():
        name = heading  # "A Story" or "I, Claudius" do not begin with a number
    words = [word for word in re.findall(r"\w+", name.casefold()) if word not in _FUNCTION_WORDS]
    has_letters = any(_LETTER.search(word) for word in words)
    if not has_letters or is_junk_title(name) or _STRUCTURE.issuperset(words):
        return None
    return name.strip()


def name_of_file(path: str) -> str | None:
    """Return the stem of a file name if it reads as a name, else None.

    All words begin with a capital letter, except for words such as "of", and none has a digit or
    belongs to the state of a file, such as "final".

    >>> name_of_file("books/Palace of Green Porcelain.pdf"), name_of_file("scan_0042.pdf")
    ('Palace of Green Porcelain', None)
    """
    pure = PureWindowsPath(path) if "\\" in path else PurePosixPath(path)
    if not re.fullmatch(_FILE_SUFFIX, pure.suffix, re.IGNORECASE) or "://" in path:
        return None
    words = re.sub(r"[_\s]+|(?<=\w)-(?=[A-Z])", " ", pure.stem).split()
    name = " ".join(words)
    bare = [re.sub(r"^\W+|\W+$", "", word) for word in words]
    if not words or is_junk_title(name) or section_name(name) is None:
        return None
    return name if all(map(_is_name_word, bare)) and _LETTER.search(bare[0]) else None


def words_of_file(path: str) -> str:
    """Return the words of a file name and of the two folders above it; "" if it is no path.

    >>> words_of_file("docs/acme/annual_report_2021.pdf"), words_of_file("uploaded by Ann")
    ('docs acme annual report 2021', '')
    """
    address = _ADDRESS.match(path)
    if address is not None:
        path = unquote(re.split("[?#]", path[address.end() :], maxsplit=1)[0])
    parts = [part for part in re.split(r"[/\\]", path) if part.strip("./ ") and part[-1:] != ":"]
    suffix = re.search(rf"{_FILE_SUFFIX}\Z", path, re.IGNORECASE)
    if not parts or (suffix is None and len(parts) == 1) or len(path) > _MAX_PATH:
        return ""
    if suffix is not None:
        parts[-1] = parts[-1][: -len(suffix[0])]
    words = (_WORDS_OF_FILES.sub(" ", part).split() for part in parts[-_PATH_PARTS:])
    return " ".join(word for part in words for word in part if not _HASH.fullmatch(word))


def _is_name_word(word: str) -> bool:
    if word.isdigit():
        return len(word) <= _SHORT_NUMBER
    if not word or any(character.isdigit() for character in word):
        return not word
    return word in _FUNCTION_WORDS or (not word[0].islower() and not _DRAFT_WORD.fullmatch(word))
