"""Every error that insular raises on purpose, as one tree.

    InsularError
    |-- InvalidArgumentError (ValueError)         an argument or option breaks its rule
    |-- RecordError (ValueError)                  a record or a file of records cannot be read
    |-- ModelError (ValueError)                   a model cannot be loaded or has no usable part
    |-- AssetError (OSError)                      a packaged file is not there or not the right one
    |-- MissingDependencyError (ImportError)      an optional package is needed and absent
    |-- AccountingError (ValueError)              a privacy cost cannot be computed as asked
    |   `-- UnsupportedEventError                 an accountant has no rule for an event
    |-- SubjectError (RuntimeError)               the stack under test cannot be audited
    |-- TrainingError (RuntimeError)              private training cannot go on as it was planned
    |-- EvidenceError (OSError)                   evidence cannot be written, read or trusted
    `-- LedgerError (RuntimeError)                a ledger refuses an entry, or cannot be used
        |-- BudgetExceededError                   a charge would exceed a cap
        `-- LedgerUnavailableError (OSError)      its database cannot be reached, read or written

Each message says name, rule, value and remedy in one line and never quotes record text. The
command line prints it and exits with code 2.
"""


class InsularError(Exception):
    """Base of every error that insular raises on purpose."""


class InvalidArgumentError(InsularError, ValueError):
    """An argument or option breaks its rule."""


class RecordError(InsularError, ValueError):
    """A record, or a file of records, cannot be read as the caller asked."""


class ModelError(InsularError, ValueError):
    """A model cannot be loaded, or lacks a part that the caller asked for."""


class AssetError(InsularError, OSError):
    """A file from a package registry cannot be fetched, or its digest is not the expected one."""


class MissingDependencyError(InsularError, ImportError):
    """An optional package is needed for what was asked and is not installed."""


class AccountingError(InsularError, ValueError):
    """A privacy cost cannot be computed, or a target cannot be reached, as the caller asked."""


class UnsupportedEventError(AccountingError):
    """An accountant has no rule for an event, or not under this neighbouring relation."""


class SubjectError(InsularError, RuntimeError):
    """The stack under test cannot be audited: it breaks the protocol or fails validation."""


class TrainingError(InsularError, RuntimeError):
    """Private training cannot go on as planned: a state does not fit, or a tensor is dead."""


class EvidenceError(InsularError, OSError):
    """Evidence cannot be written, read or trusted."""


class LedgerError(InsularError, RuntimeError):
    """A ledger refuses an entry that its rules do not allow, or is not a ledger that this reads."""


class BudgetExceededError(LedgerError):
    """A charge would exceed a population's cap; nothing was written."""


class LedgerUnavailableError(LedgerError, OSError):
    """A ledger's database cannot be reached, read or written now: locked, read-only, full."""
