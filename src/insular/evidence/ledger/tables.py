"""The four tables: entries, and what they add up to."""

from sqlalchemy import BigInteger, Column, Index, Integer, MetaData, Table, Text

METADATA = MetaData()
HEAD = Table(
    "insular_ledger",
    METADATA,
    Column("format_version", Integer, nullable=False),
    Column("ledger_id", Text, nullable=False),
    Column("n_entries", BigInteger, nullable=False),
    Column("digest", Text, nullable=False),
    Column("last_time_utc", Text, nullable=False),
    Column("n_clock_behind", BigInteger, nullable=False),
)
"""One row. A writer changes it in every transaction, so writers queue up on it."""
ENTRIES = Table(
    "insular_ledger_entries",
    METADATA,
    # SQLite gives a rowid table only for this exact type name
    Column("number", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("digest", Text, nullable=False),
    Column("release", Text, nullable=False),
    Column("body", Text, nullable=False),
    Index("insular_ledger_entries_release", "release", "number"),
)
"""The entries; rows are only ever added."""
POPULATIONS = Table(
    "insular_ledger_populations",
    METADATA,
    Column("name", Text, primary_key=True),
    Column("number", BigInteger, nullable=False),
    Column("unit", Text, nullable=False),
    Column("relation", Text, nullable=False),
    Column("part", Text, nullable=False),
    *(
        Column(f"{quantity}_{total}", Text, nullable=False)
        for total in ("cap", "spent", "reserved")
        for quantity in ("epsilon", "delta")
    ),
    Column("n_committed", BigInteger, nullable=False),
    Column("n_reserved", BigInteger, nullable=False),
)
"""Running totals of each population."""
RELEASES = Table(
    "insular_ledger_releases",
    METADATA,
    Column("name", Text, primary_key=True),
    Column("population", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("epsilon", Text, nullable=False),
    Column("delta", Text, nullable=False),
    Column("since", BigInteger, nullable=False),
    Index("insular_ledger_releases_state", "state", "since"),
)
"""What each release is charged now."""
