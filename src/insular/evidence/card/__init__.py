"""The release card: what a finished run lets out, what that costs, and what is not known.

Reading order: ``parts`` (groups of facts), ``card`` (the whole, and what it may not contradict),
``schema`` (the JSON Schema), ``upgrades`` (reading cards of every version).

The headings follow NIST SP 800-226 (2025), *Guidelines for Evaluating Differential Privacy
Guarantees*, from the top of its pyramid to the bottom; the field names are those of the
Differential Privacy Deployments Registry (Nanayakkara, Ghazi and Vadhan 2025, arXiv 2509.13509)
where it has one.

What a field means is said once: in the docstring under it. ``schema-1.json`` is made from these
docstrings, and a test says that the two are the same. To make it anew:
``python -c "from insular.evidence.card import schema; schema.write_schema()"``.
"""

from insular.evidence.card.card import (
    SCHEMA_VERSION,
    ReleaseCard,
    missing_facts,
    warning_words,
)
from insular.evidence.card.parts import (
    AccountantEpsilon,
    BaseModel,
    Basic,
    CardFile,
    Claim,
    Code,
    DeploymentModel,
    Implementation,
    IsolationFact,
    LedgerReference,
    LowerBound,
    PrivacyLoss,
    ReleasedArtifact,
    UtilityFact,
)
from insular.evidence.card.schema import schema_text
from insular.evidence.card.upgrades import UPGRADES, Upgrade, read_card

__all__ = [
    "SCHEMA_VERSION",
    "UPGRADES",
    "AccountantEpsilon",
    "BaseModel",
    "Basic",
    "CardFile",
    "Claim",
    "Code",
    "DeploymentModel",
    "Implementation",
    "IsolationFact",
    "LedgerReference",
    "LowerBound",
    "PrivacyLoss",
    "ReleaseCard",
    "ReleasedArtifact",
    "UtilityFact",
    "Upgrade",
    "missing_facts",
    "read_card",
    "schema_text",
    "warning_words",
]
