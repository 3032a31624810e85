"""Winners and the count of useful and private releases, on cells made by hand."""

import math
from dataclasses import replace

import pytest

from insular.recipes.hidden.sweep.results import Winner
from insular.recipes.hidden.sweep.winners import winners
from recipes.hidden_samples import cell_of, layer_of, missed_cell, result_of


def at_kl(found: tuple[Winner, ...]) -> list[Winner]:
    return [winner for winner in found if winner.matched == "kl"]


def at_epsilon(found: tuple[Winner, ...]) -> dict[float, Winner]:
    return {winner.value: winner for winner in found if winner.matched == "epsilon"}


def test_the_least_top1_of_the_best_attacker_wins_with_all_whose_interval_reaches_it() -> None:
    found = winners(
        [
            cell_of("isotropic", 0.1, found=(90, 90, 90)),
            # plain attackers are fooled, the aware one is not
            cell_of("complement", 0.1, found=(0, 0, 100)),
            cell_of("worst-case", 0.1, found=(50, 40, 30)),
            cell_of("alpha-half", 0.1, found=(52, 60, 10)),
        ]
    )
    (winner,) = found
    # Clopper-Pearson of 50 of 100: 0.398 to 0.602; the lower end of 60 is 0.497, of 90 is 0.824
    assert winner.mechanisms == ("worst-case", "alpha-half")
    assert winner.measure == 0.5 and winner.n_compared == 4
    assert (winner.layer, winner.matched, winner.value) == (3, "kl", 0.1)


def test_layers_and_targets_are_compared_apart_and_one_cell_is_no_comparison() -> None:
    found = winners(
        [
            cell_of("isotropic", 0.1, found=(90,)),
            cell_of("worst-case", 0.1, found=(10,)),
            cell_of("isotropic", 1.0, found=(5,)),
            cell_of("isotropic", 0.1, layer=7, found=(1,)),
            cell_of("worst-case", 0.1, layer=7, found=(90,)),
            missed_cell("worst-case", 1.0, "too_weak"),
            replace(cell_of("worst-case", 1.0, found=(0,)), repeat=1),
        ]
    )
    assert [(w.layer, w.value, w.mechanisms) for w in found] == [
        (3, 0.1, ("worst-case",)),
        (7, 0.1, ("isotropic",)),
    ]
    assert winners([]) == () and winners([cell_of("isotropic", 0.1)]) == ()


def test_at_equal_epsilon_the_least_kl_wins_read_off_on_logarithmic_axes() -> None:
    found = at_epsilon(
        winners(
            [
                # KL 1 at epsilon 10: halfway between 100 and 1 in logarithms, so is KL
                cell_of("isotropic", 0.1, measured=0.1, epsilon=100.0),
                cell_of("isotropic", 10.0, measured=10.0, epsilon=1.0),
                cell_of("worst-case", 0.1, measured=0.5, epsilon=20.0),
                cell_of("worst-case", 10.0, measured=2.0, epsilon=5.0),
                cell_of("alpha-half", 0.1, measured=0.2, epsilon=1000.0),
                cell_of("alpha-half", 10.0, measured=0.4, epsilon=50.0),
            ]
        )
    )
    assert set(found) == {10.0, 100.0}
    # worst-case falls from 0.5 to 2 nats between 20 and 5: 1 nat at 10; isotropic costs the same
    assert set(found[10.0].mechanisms) == {"isotropic", "worst-case"}
    assert found[10.0].n_compared == 2
    assert found[10.0].measure == pytest.approx(1.0)
    assert found[100.0].mechanisms == ("isotropic",)
    assert found[100.0].measure == pytest.approx(0.1)


def test_a_tenth_is_as_good_and_more_is_not() -> None:
    def cells(second: float) -> tuple[Winner, ...]:
        return winners(
            [
                cell_of(name, kl, measured=kl * times, epsilon=10.0 / kl)
                for name, times in (("isotropic", 1.0), ("worst-case", second))
                for kl in (0.5, 5.0)
            ]
        )

    assert at_epsilon(cells(1.09))[10.0].mechanisms == ("isotropic", "worst-case")
    assert at_epsilon(cells(1.11))[10.0].mechanisms == ("isotropic",)


@pytest.mark.parametrize("epsilon", [None, 0.0, math.inf])
def test_mechanisms_without_a_finite_epsilon_are_not_compared_at_one(
    epsilon: float | None,
) -> None:
    found = winners(
        [
            cell_of("isotropic", 0.1, epsilon=100.0),
            cell_of("isotropic", 1.0, epsilon=1.0),
            cell_of("complement", 0.1, epsilon=epsilon),
            cell_of("complement", 1.0, epsilon=epsilon),
        ]
    )
    assert len(at_kl(found)) == 2 and at_epsilon(found) == {}


def test_nothing_is_extrapolated() -> None:
    found = winners(
        [
            cell_of("isotropic", 0.1, epsilon=9.0),
            cell_of("isotropic", 1.0, epsilon=2.0),
            cell_of("worst-case", 0.1, epsilon=90.0),
            cell_of("worst-case", 1.0, epsilon=20.0),
        ]
    )
    assert at_epsilon(found) == {}


def test_the_middle_is_counted_by_points_and_by_intervals() -> None:
    result = result_of(
        cell_of("isotropic", 0.1, agreement=0.5, found=(10, 3, 1)),  # on both thresholds
        cell_of("isotropic", 1.0, agreement=0.49, found=(10,)),  # up to 0.539
        cell_of("worst-case", 0.1, agreement=0.9, found=(1, 11)),  # from 0.056
        cell_of("worst-case", 1.0, agreement=0.4, found=(0,)),  # up to 0.44
        cell_of("complement", 0.1, agreement=0.9, found=(0, 0, 30)),  # from 0.212
        missed_cell("dropout", 0.1, "jumps"),
    )
    assert len(result.attacked) == 5
    assert [cell.target_kl_nats for cell in result.in_the_middle] == [0.1]
    assert [c.mechanism for c in result.perhaps_in_the_middle] == [
        "isotropic",
        "isotropic",
        "worst-case",
    ]
    assert result.exit_code == 0


def test_the_nearest_cell_misses_both_thresholds_by_least() -> None:
    result = result_of(
        cell_of("isotropic", 0.1, agreement=0.9, found=(80,)),  # misses by 0.7
        cell_of("worst-case", 1.0, agreement=0.3, found=(25,)),  # by 0.2
        cell_of("alpha-half", 1.0, agreement=0.45, found=(40,)),  # by 0.3
    )
    near = result.nearest(3)
    assert near is not None and near.mechanism == "worst-case"
    assert result.nearest(4) is None


def test_exit_codes() -> None:
    good, bad = cell_of("isotropic", 0.1, found=(1,)), cell_of("isotropic", 0.1, layer=7)
    both = (layer_of(3), layer_of(7))
    assert result_of(good).exit_code == 0
    assert result_of(good, bad, layers=(3, 7)).exit_code == 1
    assert replace(result_of(good), layers=both).exit_code == 1
    assert result_of(missed_cell("dropout", 0.1, "jumps")).exit_code == 2
