"""The budget ledger: what was promised to whom, what was spent, and what is left.

Reading order: ``amounts`` (exact decimals), ``results`` (what is told), ``composition`` (whose
spends add), ``rules`` (what each entry changes), ``chain`` (entries as hashed text), ``queries``
(the questions, in SQL), ``reading`` and ``writing`` (SQLite and PostgreSQL), ``faults`` (driver
errors as one clear line), ``appending`` and ``changes`` (inside a transaction), ``answers``,
``ledger`` (reserve, commit, abort), ``verification``. SQLAlchemy is imported when something is
written, or when the ledger lies on a server.
"""

from insular.evidence.ledger.amounts import Amount
from insular.evidence.ledger.ledger import Ledger
from insular.evidence.ledger.results import (
    Account,
    Entry,
    LedgerStatus,
    PopulationStatus,
    Receipt,
    Release,
    Verification,
    as_json,
)

__all__ = [
    "Account",
    "Amount",
    "Entry",
    "Ledger",
    "LedgerStatus",
    "PopulationStatus",
    "Receipt",
    "Release",
    "Verification",
    "as_json",
]
