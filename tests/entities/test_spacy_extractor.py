import subprocess
import sys

import pytest
import spacy
from hypothesis import given

from e2graphrag_integrations.entities.spacy_extractor import (
    BUNDLED_PIPELINE,
    SpacyEntityExtractor,
    extract_checked,
)
from e2graphrag_integrations.errors import ExtractionError, MissingDependencyError
from e2graphrag_integrations.protocols import EntityExtractor
from e2graphrag_integrations.types import NOUN, Mention
from strategies import quick, texts


@pytest.fixture(scope="module")
def bundled(real_extractor):
    return real_extractor


def mentions(extractor, text):
    [sentences] = extractor.extract([text])
    return [mention for sentence in sentences for mention in sentence]


def entities(extractor, text):
    return [mention.entity for mention in mentions(extractor, text)]


def pipeline_with_rules(*patterns, lang="en"):
    """Return a pipeline whose entities are the given (text, label) pairs."""
    nlp = spacy.blank(lang)
    nlp.add_pipe("entity_ruler").add_patterns([{"pattern": p, "label": x} for p, x in patterns])
    return nlp


def test_bundled_pipeline_finds_people_and_places(bundled):
    assert isinstance(bundled, EntityExtractor)
    found = mentions(bundled, "We heard that Elizabeth Bennet had gone from Longbourn to London.")
    assert {m.entity for m in found if m.named} >= {"Elizabeth Bennet", "London"}


def test_common_nouns_are_lowercase_lemmas(bundled):
    found = mentions(bundled, "She sold three houses, two old ships and many books in London.")
    nouns = {m.entity: m for m in found if not m.named}
    assert {"house", "ship", "book"} <= set(nouns)
    assert nouns["house"].label == NOUN
    assert (nouns["house"].start, nouns["house"].end) == (15, 21)


def test_mentions_are_grouped_by_sentence(bundled):
    [sentences] = bundled.extract(["Elizabeth saw the house. Then Charlotte closed the door."])
    words = [{m.entity for m in sentence} for sentence in sentences]
    assert len(words) == 2
    assert {"Elizabeth", "house"} <= words[0]
    assert {"Charlotte", "door"} <= words[1]


@pytest.mark.parametrize("gap", [" ", "\n", "\r\n", "  \t", "\r\n    "])
def test_hard_wrapped_lines_do_not_break_names(bundled, gap):
    text = f"Yesterday the\r\nold lady met Elizabeth{gap}Bennet in{gap}London."
    [found] = [m for m in mentions(bundled, text) if "Bennet" in m.entity]
    assert found.entity == "Elizabeth Bennet"
    assert text[found.start : found.end] == f"Elizabeth{gap}Bennet"


def test_blank_line_separates_a_heading(bundled):
    text = "A visit to London\r\n\r\nElizabeth Bennet arrived in the evening."
    assert "Elizabeth Bennet" in entities(bundled, text)


@quick
@given(texts())
def test_offsets_refer_to_the_original_text(bundled, text):
    text = f"{text} Elizabeth Bennet sold the houses. {text}"
    for m in mentions(bundled, text):
        assert 0 <= m.start < m.end <= len(text)
        if m.named:
            assert "".join(text[m.start : m.end].split()) == "".join(m.entity.split())


def test_results_are_one_per_text_in_order(bundled):
    found = bundled.extract(["", "She saw London.", " \r\n", "She saw Paris."])
    assert [[m.entity for s in sentences for m in s] for sentences in found] == [
        [],
        ["London"],
        [],
        ["Paris"],
    ]
    assert bundled.extract([]) == []


def test_numbers_and_dates_are_not_entities():
    labels = ["DATE", "TIME", "PERCENT", "MONEY", "QUANTITY", "ORDINAL", "CARDINAL"]
    patterns = [(f"word{i}", label) for i, label in enumerate(labels)]
    nlp = pipeline_with_rules(*patterns, ("rose", "FAC"), ("lily", "WORK_OF_ART"))
    text = " ".join([text for text, _ in patterns] + ["rose", "lily"])
    assert [(m.entity, m.label) for m in mentions(SpacyEntityExtractor(nlp), text)] == [
        ("rose", "FAC"),
        ("lily", "WORK_OF_ART"),
    ]


def test_name_rules_find_names_that_the_model_misses():
    nlp = spacy.blank("en")
    nlp.add_pipe("attribute_ruler").add([[{"IS_TITLE": True}]], {"POS": "PROPN"})
    text = "we read about Green Porcelain there"
    with_rules, without = SpacyEntityExtractor(nlp), SpacyEntityExtractor(nlp, name_rules=False)
    assert mentions(with_rules, text) == [Mention("Green Porcelain", 14, 29, "NAME")]
    assert mentions(without, text) == []
    assert with_rules.fingerprint != without.fingerprint
    assert with_rules.is_reproducible_by_name is without.is_reproducible_by_name is False


def test_noun_inside_a_name_is_not_a_separate_entity():
    nlp = pipeline_with_rules(("time machine", "WORK_OF_ART"))
    nlp.add_pipe("attribute_ruler").add([[{"IS_ALPHA": True}]], {"POS": "NOUN"})
    found = entities(SpacyEntityExtractor(nlp), "time machine story")
    assert found == ["time machine", "story"]


def test_single_letters_and_punctuation_are_not_nouns():
    nlp = spacy.blank("en")
    nlp.add_pipe("attribute_ruler").add([[{}]], {"POS": "NOUN"})
    assert entities(SpacyEntityExtractor(nlp), "a - 12 ** ox 茶") == ["ox", "茶"]


@pytest.mark.parametrize("name", ["zz_core_web_none", "no/such/folder"])
def test_missing_pipeline_error_gives_the_download_command(name):
    extractor = SpacyEntityExtractor(name)
    with pytest.raises(MissingDependencyError) as caught:
        extractor.extract(["text"])
    assert f"`python -m spacy download {name}`" in str(caught.value)


@pytest.mark.slow
def test_pipeline_can_be_a_path_or_its_string(tmp_path):
    pipeline_with_rules(("rose", "PERSON")).to_disk(tmp_path / "mine")
    for model in (tmp_path / "mine", str(tmp_path / "mine")):
        extractor = SpacyEntityExtractor(model)
        assert entities(extractor, "a rose") == ["rose"]
        assert extractor.is_reproducible_by_name


@pytest.mark.slow
def test_unneeded_pipeline_components_are_disabled(tmp_path):
    nlp = pipeline_with_rules(("rose", "PERSON"))
    nlp.add_pipe("merge_entities")
    nlp.to_disk(tmp_path / "mine")
    assert SpacyEntityExtractor(tmp_path / "mine").nlp.pipe_names == ["entity_ruler"]


@pytest.mark.slow
def test_senter_replaces_the_parser(tmp_path):
    nlp = spacy.blank("en")
    nlp.add_pipe("parser").add_label("dep")
    nlp.add_pipe("senter")
    nlp.initialize()
    nlp.disable_pipe("senter")
    nlp.to_disk(tmp_path / "mine")
    assert SpacyEntityExtractor(tmp_path / "mine").nlp.pipe_names == ["senter"]


def test_pipeline_without_sentence_boundaries_uses_rules():
    nlp = pipeline_with_rules(("上海", "GPE"), ("北京", "GPE"), lang="zh")
    [sentences] = SpacyEntityExtractor(nlp).extract(["我住在北京。他住在上海！"])
    # The Chinese tokenizer yields characters; a pattern can match several.
    assert [[m.entity for m in s] for s in sentences] == [["北京"], ["上海"]]


def test_blank_pipeline_finds_nothing():
    assert mentions(SpacyEntityExtractor(spacy.blank("zh")), "你好。再见！") == []
    assert mentions(SpacyEntityExtractor(spacy.blank("xx")), "") == []


def test_fingerprint_contains_the_pipeline_name_and_version(bundled):
    meta = bundled.nlp.meta
    assert f"{BUNDLED_PIPELINE}-{meta['version']}" in bundled.fingerprint
    assert bundled.is_reproducible_by_name
    assert SpacyEntityExtractor(pipeline_with_rules(("rose", "PERSON"))).fingerprint != (
        SpacyEntityExtractor(spacy.blank("en")).fingerprint
    )


@pytest.mark.slow
def test_the_fingerprint_of_a_folder_changes_with_its_contents(tmp_path):
    def extractor_of(name):
        pipeline_with_rules((name, "PERSON")).to_disk(tmp_path / "pipeline")
        return SpacyEntityExtractor(tmp_path / "pipeline")

    first = extractor_of("rose").fingerprint
    assert extractor_of("rose").fingerprint == first
    assert extractor_of("lily").fingerprint != first
    in_memory = [SpacyEntityExtractor(pipeline_with_rules((n, "ORG"))) for n in ("rose", "lily")]
    assert in_memory[0].fingerprint != in_memory[1].fingerprint


_TWO_PROCESSES = """
from e2graphrag_integrations.entities.spacy_extractor import SpacyEntityExtractor

if __name__ == "__main__":
    texts = [f"Elizabeth Bennet saw {i} houses\\r\\nin London. She left." for i in range(6)]
    one, two = (SpacyEntityExtractor(n_process=n, batch_size=2).extract(texts) for n in (1, 2))
    assert any(sentence for sentence in one[0])
    assert one == two
"""


@pytest.mark.slow
def test_two_processes_find_the_same_mentions_as_one(tmp_path, without_torch):
    """Runs in a subprocess: forking a process that has the threads of other tests can hang."""
    script = tmp_path / "two.py"
    script.write_text(_TWO_PROCESSES)
    done = subprocess.run(
        [sys.executable, script],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=without_torch,
    )
    assert (done.returncode, done.stderr) == (0, "")


class FixedExtractor:
    """Returns a fixed result."""

    def __init__(self, found):
        self.found = found

    def extract(self, texts):
        return self.found


def test_custom_extractor_can_return_plain_tuples():
    found = extract_checked(FixedExtractor([[[("Rose", 0, 4, "PERSON")], []]]), ["Rose."], ["here"])
    assert found == [[[Mention("Rose", 0, 4, "PERSON")], []]]


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ([], r"returned 0 results for 1 texts"),
        ([[], []], r"returned 2 results for 1 texts"),
        (None, r"failed on chunk 7"),
        ([None], r"failed on chunk 7"),
        ([[[7]]], r"FixedExtractor on chunk 7 returned 7, which is not a Mention"),
        ([[[("Rose", 0, 4)]]], r"which is not a Mention"),
        ([[[("Rose", "a", 4, "X")]]], r"which is not a Mention"),
        ([[[("Rose", 2, 6, "X")]]], r"must lie within the text's 5 characters"),
        ([[[("Rose", -1, 4, "X")]]], r"must lie within the text"),
        ([[[("Rose", 4, 2, "X")]]], r"must lie within the text"),
        ([[[(None, 0, 4, "X")]]], r"must lie within the text"),
    ],
)
def test_invalid_result_of_an_extractor_is_an_error_with_its_location(found, message):
    with pytest.raises(ExtractionError, match=message):
        extract_checked(FixedExtractor(found), ["Rose."], ["chunk 7"])


def test_bundled_pipeline_looks_up_vectors_by_lower_case_form(real_extractor):
    # spaCy loses this setting when a pipeline is saved again, which degrades name recognition.
    from spacy.attrs import LOWER

    assert real_extractor.nlp.vocab.vectors.attr == LOWER


@pytest.mark.slow
@pytest.mark.parametrize(
    "unit", ["Alice Bob ", "Alice met Bob. ", "( ", '"Alice" ', "Alice\n\n", "Bob-"]
)
def test_the_work_grows_linearly_with_the_length_of_a_text(bundled, unit):
    extract_checked(bundled, [unit * 9], ["the warm-up"])

    def operations(length):
        count = 0

        def profile(*_):
            nonlocal count
            count += 1

        sys.setprofile(profile)
        try:
            extract_checked(bundled, [(unit * length)[:length]], ["the text"])
        finally:
            sys.setprofile(None)
        return count

    assert operations(4000) < 5 * operations(1000)


@pytest.mark.fast_cases(3)
@pytest.mark.parametrize(
    ("language", "name", "text"),
    [
        ("de", "Weimar", "Er lebte in\u00a0Weimar. Der Dichter\nblieb in Weimar."),
        ("ru", "Москве", "Он родился в Москве. В Москве он жил."),
        ("el", "Αθήνα", "Ζει στην Αθήνα; Η Αθήνα είναι μεγάλη."),
        ("ar", "القاهرة", "وُلد في \u200fالقاهرة. القاهرة كبيرة."),
        ("he", "תל אביב", "הוא גר בתל אביב. תל אביב גדולה."),
        ("hi", "पोरबंदर", "जन्म पोरबंदर में हुआ। पोरबंदर छोटा है।"),
        ("fa", "تهران", "می\u200cخواهم به تهران بروم. تهران بزرگ است."),
        ("tr", "Selanik", "Atatürk Selanik te doğdu. Selanik güzel."),
        ("zh", "桃园", "刘备在桃园结义。桃园很美。"),
        ("xx", "Weimar", "👩‍👩‍👧‍👦 Weimar 🇩🇪. Weimar."),
    ],
)
def test_pipeline_of_any_language_finds_names_with_exact_spans(language, name, text):
    extractor = SpacyEntityExtractor(pipeline_with_rules((name, "LOC"), lang=language))
    [sentences] = extractor.extract([text])
    found = [mention for sentence in sentences for mention in sentence]
    assert {mention.entity for mention in found} == {name}
    assert all(text[m.start : m.end] == name for m in found)
