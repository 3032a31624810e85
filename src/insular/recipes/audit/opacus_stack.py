"""A subject from what Opacus' ``PrivacyEngine.make_private`` returned: the user's own objects."""

from collections import Counter
from typing import Any, cast

import torch
from torch import nn

from insular.audit.subjects.model_subject import Engine, ModelSubject
from insular.audit.subjects.opacus_engine import OpacusGradients, hooks_disabled
from insular.audit.subjects.opacus_settings import (
    STABILISER,
    facts_of_privacy_engine,
    privacy_engine_clipper,
)
from insular.audit.subjects.subject import SubjectFacts
from insular.models.structure import trainable
from insular.recipes.stacks import installed_versions, modes
from insular.records.batches import TokenBatch
from insular.training.gradients import forward_losses, weighted_gradients
from insular.training.losses import LossName


def privacy_engine_subject(
    module: nn.Module,
    optimizer: Any,
    data_loader: Any,
    *,
    pad_token_id: int,
    loss: LossName = "record_mean",
    name: str = "opacus",
) -> ModelSubject:
    """Put a stack under test that Opacus made private.

    Return it from the factory that ``insular audit --subject module:factory`` names. Gradients are
    Opacus' own, clipping is the optimizer's formula and bound, and the manifest is read from the
    objects: sampler, sample rate, divisor.

    Args:
        module: The causal language model, as ``make_private`` returned it.
        optimizer: The optimizer, as ``make_private`` returned it; flat clipping.
        data_loader: The loader, as ``make_private`` returned it.
        pad_token_id: Token of the padding.
        loss: ``record_mean``, or the batch-wide ``token_mean`` of Hugging Face models.
        name: Name of the stack in evidence.

    Returns:
        The subject.

    Raises:
        SubjectError: If the optimizer does not clip flat to a constant bound.
        MissingDependencyError: If Opacus is not installed.
    """
    settings = facts_of_privacy_engine(optimizer, data_loader)
    gradients = OpacusGradients(forward_losses)
    bare = getattr(module, "_module", module)

    def compute(model: nn.Module, batch: TokenBatch) -> object:
        return gradients.compute(model, batch, loss=loss)

    def facts(model: nn.Module) -> SubjectFacts:
        classes = Counter(
            type(m).__name__ for m in bare.modules() if isinstance(m, nn.Linear) and _frozen(m)
        )
        return SubjectFacts(
            engine="opacus PrivacyEngine",
            model=type(bare).__name__,
            trainable=tuple((n, p.numel()) for n, p in trainable(model).items()),
            replaced=dict(classes),
            mode=modes(model),
            dtype=str(next(bare.parameters()).dtype).removeprefix("torch."),
            loss=f"{loss}; {settings.loss_text}",
            sampler=settings.sampler_text,
            clipping=settings.clipping_text,
            clip_norm=settings.clip_norm,
            stabiliser=STABILISER,
            versions=installed_versions(),
        )

    def oracle(model: nn.Module, batch: TokenBatch, weights: torch.Tensor) -> torch.Tensor:
        with hooks_disabled(model):
            return weighted_gradients(model, batch, weights, loss=loss)

    return ModelSubject(
        name,
        module,
        engine=cast(Engine, compute),
        oracle=oracle,
        clip=privacy_engine_clipper(optimizer),
        facts=facts,
        pad_token_id=pad_token_id,
    )


def _frozen(module: nn.Module) -> bool:
    """Whether no parameter of a module is trainable."""
    return not any(parameter.requires_grad for parameter in module.parameters())
