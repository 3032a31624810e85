"""Numbers as the page prints them."""

import pytest

from insular.recipes._numbers import epsilons, in_clip_norms, percent


@pytest.mark.parametrize(
    ("ratio", "words"),
    [(1.0, "1"), (15.0, "15"), (1.4876, "1.49"), (1.0000004, "1.000000"), (0.9951, "0.995100")],
)
def test_a_distance_has_the_digits_that_tell_it_from_the_bound(ratio, words):
    assert in_clip_norms(ratio) == f"{words}\u00a0C"


def test_epsilons_have_the_decimals_that_tell_them_apart():
    assert epsilons(6.98, 4.3772) == ("6.98", "4.38")
    assert epsilons(4.3814, 4.3772) == ("4.381", "4.377")
    assert epsilons(4.3772, 4.3772, float("inf")) == ("4.38", "4.38", "infinite")


def test_a_share_that_is_only_nearly_nothing_says_so():
    assert [percent(x) for x in (0.0, 0.0004, 0.0005, 1.0)] == ["0.0%", "< 0.1%", "0.1%", "100.0%"]
