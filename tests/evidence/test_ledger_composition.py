"""Composition: basic where units may be shared, parallel where not; sums by slow oracles."""

from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evidence.ledger_samples import A, declare, small_ledger
from insular.errors import BudgetExceededError, LedgerError
from insular.evidence.ledger import Account, Ledger
from insular.evidence.ledger.amounts import ZERO
from insular.evidence.ledger.composition import exposure, left, overspend


def test_disjoint_populations_compose_in_parallel_and_others_add(where):
    ledger = Ledger(where)
    declare(ledger, "everyone")
    declare(ledger, "eu", partition="region")
    declare(ledger, "us", partition="region")
    ledger.reserve("a", population="eu", amount=A("2.0", "0"))
    ledger.reserve("b", population="us", amount=A("1.5", "0"))
    exposed = {one.account.name: one.exposure.epsilon for one in ledger.status().populations}
    assert exposed == {"everyone": Decimal("2.0"), "eu": Decimal("2.0"), "us": Decimal("1.5")}
    with pytest.raises(BudgetExceededError) as caught:
        ledger.reserve("c", population="everyone", amount=A("1.1", "0"))
    assert "population everyone would need epsilon 3.1 of 3.0" in str(caught.value)
    lefts = {one.account.name: one.left.epsilon for one in ledger.status().populations}
    assert lefts == {"everyone": Decimal("1.0"), "eu": Decimal("1.0"), "us": Decimal("1.5")}
    ledger.reserve("c", population="everyone", amount=A("1.0", "0"))
    with pytest.raises(BudgetExceededError) as caught:
        ledger.reserve("d", population="us", amount=A("0.6", "0"))
    assert "population us would need epsilon 3.1" in str(caught.value)


def test_a_population_over_units_that_are_already_charged_is_refused(where):
    ledger = small_ledger(where)
    with pytest.raises(BudgetExceededError, match="late would need epsilon 1.65 of 1: over by 0"):
        declare(ledger, "late", cap=A("1", "1e-5"))
    assert len(ledger.status().populations) == 1


names = ("p", "q", "r", "s", "t")
accounts_of = st.lists(
    st.tuples(st.sampled_from(["", "x", "y"]), st.integers(0, 50), st.integers(0, 50)),
    min_size=1,
    max_size=5,
).map(
    lambda rows: tuple(
        Account(
            name=names[i], unit="owner", relation="add_or_remove_one", partition=partition,
            cap=A(cap, "0"), spent=A(spent, "0"), reserved=ZERO, n_committed=1, n_reserved=0,
        )
        for i, (partition, spent, cap) in enumerate(rows)
    )
)  # fmt: skip


def memberships(accounts):
    """Every set of populations that one unit may be in, the slow way."""
    for bits in range(1, 2 ** len(accounts)):
        chosen = [account for i, account in enumerate(accounts) if bits >> i & 1]
        parts = [account.partition for account in chosen if account.partition]
        if len(set(parts)) == len(parts):
            yield chosen


@given(accounts_of)
def test_exposure_is_the_worst_membership_of_a_unit(accounts):
    for account in accounts:
        worst = max(
            sum(one.spent.epsilon for one in chosen)
            for chosen in memberships(accounts)
            if account in chosen
        )
        assert exposure(accounts, account).epsilon == worst


@given(accounts_of, st.integers(0, 60), st.data())
def test_what_is_left_can_be_spent_and_no_more(accounts, extra, data):
    account = data.draw(st.sampled_from(accounts))
    if overspend(accounts, asked=account.name):
        return

    def after(epsilon):
        grown = Account(**{**vars(account), "reserved": A(epsilon, "0")})
        return tuple(grown if one.name == account.name else one for one in accounts)

    most = left(accounts, account).epsilon
    assert not overspend(after(most), asked=account.name)
    assert overspend(after(most + extra + 1), asked=account.name)


steps = st.lists(
    st.tuples(
        st.sampled_from(["reserve", "commit", "abort", "extend"]),
        st.integers(0, 7),
        st.sampled_from(["0", "0.1", "0.25", "1e-9", "0.333333333333333333", "2"]),
    ),
    max_size=40,
)


@settings(max_examples=12, deadline=None)
@given(steps)
def test_totals_are_those_of_an_independent_sum(tmp_path_factory, found):
    ledger = Ledger(tmp_path_factory.mktemp("ledger") / "l.db")
    declare(ledger, cap=A("3", "0"))
    charges: dict[str, tuple[str, Decimal]] = {}
    for kind, number, text in found:
        name, value = f"r{number}", Decimal(text)
        state, charge = charges.get(name, ("", Decimal(0)))
        total = sum((one for _, one in charges.values()), Decimal(0))
        allowed = {
            "reserve": not state and total + value <= 3,
            "extend": state == "reserved" and total + value <= 3,
            "commit": state == "reserved" and value <= charge,
            "abort": state == "reserved",
        }[kind]
        try:
            if kind == "reserve":
                ledger.reserve(name, population="support", amount=A(text, "0"))
            elif kind == "abort":
                ledger.abort(name, reason="test")
            else:
                getattr(ledger, kind)(name, amount=A(text, "0"))
        except LedgerError:
            assert not allowed
            continue
        assert allowed
        charges[name] = {
            "reserve": ("reserved", value),
            "extend": ("reserved", charge + value),
            "commit": ("committed", value),
            "abort": ("aborted", Decimal(0)),
        }[kind]
    account = ledger.status().populations[0].account
    assert account.charged.epsilon == sum((one for _, one in charges.values()), Decimal(0))
    assert account.spent.epsilon == sum(
        (one for state, one in charges.values() if state == "committed"), Decimal(0)
    )
    assert ledger.verify().intact
