"""What a training run reserves in a ledger before its first step, and commits after its last."""

from decimal import ROUND_CEILING, Decimal
from typing import final

from insular.errors import LedgerError
from insular.evidence.ledger import Amount, Ledger
from insular.recipes.train.plan import Plan
from insular.recipes.train.results import Artifact, LedgerEntryRef
from insular.recipes.train.spec import TrainSpec

_PLACES = Decimal("0.000001")


@final
class Reservation:
    """The charge of one run in one ledger.

    Guarantees:
        * Nothing is trained before the reservation is on disk.
        * A run that was killed finds its reservation again, even where its charge was committed;
          it is not charged twice.
        * No run uses the reservation of another: a name that is taken is refused.
        * What is committed is at least what was spent and at most what was reserved.
    """

    def __init__(self, spec: TrainSpec, plan: Plan, *, release: str, run: str) -> None:
        self._ledger = Ledger(spec.ledger)
        self._where = spec.ledger
        self._population = spec.population
        self._release = release
        self._amount = _amount(plan.cost.epsilon, plan.delta)
        self._note = f"train {run}"
        self._unit, self._relation = plan.unit, plan.relation

    def reserve(self) -> None:
        """Set the plan's cost aside, unless an earlier start of this run did.

        Raises:
            LedgerError: If the ledger protects another unit or relation, or the name is taken.
            BudgetExceededError: If a cap would be exceeded; it says by how much.
        """
        self._check_promise()
        entries = self._ledger.history(release=self._release)
        if not entries:
            self._ledger.reserve(
                self._release, population=self._population, amount=self._amount, note=self._note
            )
            return
        first, last = entries[0], entries[-1]
        if first.note != self._note or first.amount != self._amount or last.kind == "abort":
            raise LedgerError(
                f"release {self._release} must be free or reserved by this run, got one that is "
                f"{last.kind} with {last.amount}; choose another --release."
            )

    def commit(self, *, epsilon: float, delta: float, artifacts: tuple[Artifact, ...]) -> None:
        """State what was spent, unless an earlier start did.

        Args:
            epsilon: Spent, in nats.
            delta: Spent.
            artifacts: What it pays for.
        """
        if self._ledger.history(release=self._release)[-1].kind == "commit":
            return
        spent = _amount(epsilon, delta)
        if not self._amount.covers(spent):
            spent = self._amount if Decimal(epsilon) <= self._amount.epsilon else spent
        self._ledger.commit(
            self._release, amount=spent, artifacts=[a.sha256 for a in artifacts], note=self._note
        )

    def reference(self) -> LedgerEntryRef:
        """What the ledger holds for this run now.

        Returns:
            The entry, by its numbers.
        """
        entries = self._ledger.history(release=self._release)
        status = self._ledger.status()
        reserved = entries[0].amount
        committed = entries[-1].amount if entries[-1].kind == "commit" else None
        return LedgerEntryRef(
            ledger=status.ledger,
            population=self._population,
            release=self._release,
            reserved_epsilon=str(reserved.epsilon),
            reserved_delta=str(reserved.delta),
            committed_epsilon=str(committed.epsilon) if committed else "",
            committed_delta=str(committed.delta) if committed else "",
            head=status.head,
        )

    def _check_promise(self) -> None:
        """Refuse a ledger whose charges are for another unit or relation."""
        populations = {p.account.name: p.account for p in self._ledger.status().populations}
        account = populations.get(self._population)
        if account is None:
            raise LedgerError(
                f"population must be one that {self._where} declares, got "
                f"{self._population!r}; see insular ledger init."
            )
        if (account.unit, account.relation) != (self._unit, self._relation):
            raise LedgerError(
                f"population {self._population} is protected by {account.unit} under "
                f"{account.relation}, got a run that protects each {self._unit} under "
                f"{self._relation}; change --unit or --relation."
            )


def _amount(epsilon: float, delta: float) -> Amount:
    """Both numbers as decimals that are not below them."""
    exact = Decimal(epsilon).quantize(_PLACES, rounding=ROUND_CEILING)
    return Amount.of(exact, Decimal(repr(delta)))
