"""What the cards of every kind of run have in common."""

from dataclasses import fields
from pathlib import PurePath
from typing import Any

from insular.evidence import RunManifest
from insular.evidence.card import (
    SCHEMA_VERSION,
    CardFile,
    Code,
    DeploymentModel,
    ReleaseCard,
    missing_facts,
)
from insular.recipes.card.statements import Statements

_SOURCES = ("results.json", "run.toml", "winner.json", "search.toml")


def completed(**facts: Any) -> ReleaseCard:
    """A card from its facts, with the list of those that are missing.

    Args:
        **facts: Every field of the card but ``schema_version`` and ``missing``.

    Returns:
        The card.
    """
    names = [field.name for field in fields(ReleaseCard) if field.name in facts]
    missing = tuple(path for name in names for path in missing_facts(facts[name], at=name))
    return ReleaseCard(schema_version=SCHEMA_VERSION, missing=missing, **facts)


def public_name(model: str) -> str:
    """A model's name without the folders of the machine that ran; a hub name stays whole.

    Args:
        model: Alias, hub name or path.

    Returns:
        The name.
    """
    local = model.startswith(("/", ".", "~"))
    return PurePath(model).name or model if local else model


def deployment(stated: Statements) -> DeploymentModel:
    """What the guarantee stands on, as far as somebody said.

    Args:
        stated: What was said.

    Returns:
        The facts.
    """
    return DeploymentModel(
        model_name="Central",
        trust_assumptions=stated.trust_assumptions,
        access_type=stated.access_type,
        side_channels=stated.side_channels,
        data_security_and_access_control=stated.data_security_and_access_control,
        data_collection_exposure=stated.data_collection_exposure,
    )


def run_facts(manifest: RunManifest) -> dict[str, Any]:
    """Code, start and evidence of a run. No input is named by digest.

    A digest of the records would let whoever knows all of them but one test who the last one is.

    Args:
        manifest: The run.

    Returns:
        The fields of the card.
    """
    return {
        "code": Code(
            insular_version=manifest.insular_version,
            code_revision=manifest.code_revision or "",
            python=manifest.python,
            platform=manifest.platform,
            packages=manifest.packages,
        ),
        "created_utc": manifest.created_utc,
        "evidence": tuple(
            CardFile(name=name, sha256=manifest.files[name])
            for name in _SOURCES
            if name in manifest.files
        ),
    }
