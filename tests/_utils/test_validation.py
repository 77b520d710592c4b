import numpy as np
import pytest

from e2graphrag_integrations._utils.validation import (
    check_int,
    check_seconds,
    check_text,
    short_repr,
    wrap_errors,
)
from e2graphrag_integrations.errors import EmbeddingError, InvalidInputError

HUGE = pytest.param(10**5000, id="5000 digits")


@pytest.mark.parametrize("value", [3, np.int64(3), np.uint8(3), np.array(3)])
def test_integers_of_any_type_become_plain_ints(value):
    assert type(check_int("k", value)) is int
    assert check_int("k", value) == 3


@pytest.mark.parametrize(
    "value", [True, np.True_, 3.0, np.float64(3), "3", None, [3], 0, -1, 10_000_001, HUGE]
)
def test_error_for_an_invalid_integer_names_the_argument(value):
    with pytest.raises(
        InvalidInputError, match=r"k=.* must be a whole number from 1 to 10,000,000"
    ):
        check_int("k", value)


def test_integer_without_upper_bound_is_accepted():
    assert check_int("k", 2**70, most=None) == 2**70
    with pytest.raises(InvalidInputError, match="k=-1 must be a whole number of at least 0"):
        check_int("k", -1, least=0, most=None)


@pytest.mark.parametrize("value", ["x", None, True, -1, float("nan"), float("inf"), 1j, 10**400])
def test_error_for_an_invalid_duration_names_the_argument(value):
    with pytest.raises(InvalidInputError, match=r"wait=.* must be a number of seconds"):
        check_seconds("wait", value)
    assert check_seconds("wait", 0) == 0.0


def test_lone_surrogate_is_rejected_with_its_position():
    with pytest.raises(InvalidInputError, match="name contains a lone surrogate at character 1"):
        check_text("name", "a\ud800")


def test_any_value_has_a_short_representation():
    deep = []
    for _ in range(100_000):
        deep = [deep]
    assert short_repr("a") == "'a'"
    assert len(short_repr("a" * 1000)) < 100
    assert short_repr(deep) == "(list, too large to print)"
    assert short_repr(10**5000) == "(int, too large to print)"


def test_wrap_errors_wraps_foreign_exceptions_only():
    with pytest.raises(EmbeddingError, match="X failed: KeyError: 'a'") as caught:  # noqa: SIM117
        with wrap_errors(EmbeddingError, "X failed"):
            raise KeyError("a")
    assert isinstance(caught.value.__cause__, KeyError)
    with (
        pytest.raises(InvalidInputError, match="as it was"),
        wrap_errors(EmbeddingError, "X failed"),
    ):
        raise InvalidInputError("as it was")
    with pytest.raises(KeyboardInterrupt), wrap_errors(EmbeddingError, "X failed"):
        raise KeyboardInterrupt


def test_a_value_that_cannot_be_printed_is_described():
    class Broken:
        def __repr__(self):
            raise RuntimeError

    assert short_repr(Broken()) == "(Broken, cannot be printed)"
