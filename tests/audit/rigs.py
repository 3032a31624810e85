"""Tiny subjects, records and layers that the audit's tests are built from."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from insular.audit.isolation.audit import audit_isolation
from insular.audit.isolation.results import ArmResult
from insular.audit.spec import IsolationSpec
from insular.audit.subjects.callable_subject import CallableSubject
from insular.audit.subjects.model_subject import ModelSubject
from insular.audit.subjects.subject import Subject, SubjectFacts
from insular.models.lora import add_lora
from insular.models.spec import LoraSpec
from insular.models.structure import block_linears, embedding, find_blocks, trainable
from insular.precision.policy import apply_precision, calibrate_outliers, set_layer_modes
from insular.precision.spec import PrecisionSpec
from insular.precision.stock import Linear8bitLt
from insular.records.batches import TokenBatch, collate
from insular.records.tokens import TokenisedRecord
from insular.training.clipping import clip_records
from insular.training.gradients import (
    GradientEngine,
    HookGradients,
    weighted_gradients,
)
from insular.training.losses import LossName

PAD, LOUD, VOCABULARY = 0, 60, 64
"""Padding; first of the tokens whose embedding has the planted outlier; size of the vocabulary."""
COLUMN = 5
"""Where the planted outlier stands."""


@dataclass(frozen=True, kw_only=True)
class Rig:
    """A subject with the records that it is audited on."""

    subject: Subject
    base: tuple[TokenisedRecord, ...]
    spares: tuple[TokenisedRecord, ...]
    clip_norm: float = 0.01
    width: int = 0
    keep: dict[str, object] = field(default_factory=dict)

    def audit(self, **changes: float) -> ArmResult:
        """Audit the subject, and keep the counter-example's arrays."""
        width = self.width or max(len(record.tokens) for record in self.base)
        spec = IsolationSpec(**{"clip_norm": self.clip_norm, **changes})
        return audit_isolation(
            self.subject, self.base, self.spares, width=width, spec=spec, keep=self.keep.update
        )


def record(name: str, *tokens: int) -> TokenisedRecord:
    """A record of these tokens."""
    return TokenisedRecord(id=name, owner=f"owner of {name}", tokens=tokens)


def quiet_records(
    seed: int, *, lengths: Sequence[int] = (10, 8, 12, 9), n_spares: int = 4
) -> tuple[tuple[TokenisedRecord, ...], tuple[TokenisedRecord, ...]]:
    """Base records and spares of random tokens, none of them loud."""
    generator = torch.Generator().manual_seed(seed)

    def draw(name: str, length: int) -> TokenisedRecord:
        return record(name, *torch.randint(3, LOUD, (length,), generator=generator).tolist())

    base = tuple(draw(f"base-{i}", length) for i, length in enumerate(lengths))
    spares = tuple(draw(f"spare-{i}", max(lengths)) for i in range(n_spares))
    return base, spares


def loud_records(
    seed: int,
) -> tuple[tuple[TokenisedRecord, ...], tuple[TokenisedRecord, ...]]:
    """The same, with one loud token in the first base record only."""
    (first, *others), spares = quiet_records(seed)
    place = seed % len(first.tokens)
    tokens = (*first.tokens[:place], LOUD + seed % 4, *first.tokens[place + 1 :])
    return (record(first.id, *tokens), *others), spares


def decoder(
    seed: int,
    *,
    family: str = "gpt2",
    precision: PrecisionSpec | None = None,
    hidden: int = 32,
    loud_padding: bool = False,
    change: Callable[[nn.Module], None] | None = None,
) -> nn.Module:
    """A one-block decoder with a planted outlier column, frozen arithmetic and LoRA.

    The outlier reaches magnitude 6 in the first block's linear layers on loud tokens only.
    """
    from models.families import tiny

    model = tiny(family, seed, hidden=hidden).requires_grad_(False)
    del model.get_submodule(find_blocks(model).name)[1:]
    _plant_outlier(model, loud_padding=loud_padding)
    precision = precision or PrecisionSpec()
    layers = block_linears(model)
    calibration = None
    if precision.outlier_rule == "calibrated":
        public = collate([record("public", 7, LOUD, 11, 8, 9, 4, 3, 20)], pad_token_id=PAD)
        inputs = {"input_ids": public.input_ids, "attention_mask": public.attention_mask}
        calibration = calibrate_outliers(
            model, inputs, layers=layers, threshold=precision.threshold
        )
    apply_precision(model, precision, layers=layers, calibration=calibration)
    if change is not None:
        change(model)
    adapted = add_lora(model, LoraSpec(rank=2, init_b_std=0.1, seed=seed)).eval()
    set_layer_modes(adapted, precision)
    return adapted


def model_subject(
    model: nn.Module,
    *,
    name: str = "tiny",
    precision: PrecisionSpec | None = None,
    loss: LossName = "record_mean",
    engine: GradientEngine | None = None,
    oracle: bool = True,
    clip_norm: float = 0.01,
    padding_side: str = "right",
    physical_batch: int = 0,
    expected: dict[str, int] | None = None,
) -> ModelSubject:
    """A subject over a tiny decoder, wired as the named stacks are."""
    engine = engine or HookGradients()
    precision = precision or PrecisionSpec()

    def read(model: nn.Module) -> SubjectFacts:
        modes = {m.training for m in model.modules() if isinstance(m, Linear8bitLt)}
        return SubjectFacts(
            engine=engine.name,
            model=name,
            trainable=tuple((n, p.numel()) for n, p in trainable(model).items()),
            mode="; ".join(
                ["model eval", *(f"Linear8bitLt {'train' if m else 'eval'}" for m in modes)]
            ),
            physical_batch=physical_batch,
            expected_operators=expected or {},
        )

    return ModelSubject(
        name,
        model,
        engine=lambda m, batch: engine.compute(m, batch, loss=loss),
        oracle=(lambda m, batch, weights: weighted_gradients(m, batch, weights, loss=loss))
        if oracle
        else None,
        clip=lambda gradients: clip_records(gradients, clip_norm=clip_norm),
        facts=read,
        pad_token_id=PAD,
        padding_side=padding_side,
        physical_batch=physical_batch,
        prepare=lambda: set_layer_modes(model, precision),
    )


def layer_subject(
    layer: Callable[[Tensor], Tensor], table: Tensor, *, name: str = "layer"
) -> CallableSubject:
    """One layer under a bias b with loss sum log cosh(y + b): gradient sum tanh(y) per record.

    The layer takes the embedded batch, ``[record, token, hidden]``.
    """

    def gradients(batch: TokenBatch) -> Tensor:
        with torch.no_grad():
            outputs = layer(table[batch.input_ids])
        return (outputs.tanh() * batch.attention_mask.unsqueeze(2)).sum(dim=1)

    return CallableSubject(gradients, name=name)


def random_table(seed: int, *, hidden: int, std: float = 1.0) -> Tensor:
    """A vector for each token."""
    generator = torch.Generator().manual_seed(1000 + seed)
    return torch.randn(VOCABULARY, hidden, generator=generator) * std


def _plant_outlier(model: nn.Module, *, loud_padding: bool) -> None:
    """Give loud tokens a large entry in one column, and the first norm a large gain there."""
    vectors = embedding(model).weight.data
    vectors[:, COLUMN] = 0.05
    vectors[LOUD:, COLUMN] = 3.0
    if loud_padding:
        vectors[PAD, COLUMN] = 3.0
    (block,) = model.get_submodule(find_blocks(model).name)
    norm = next(m for m in block.modules() if "norm" in type(m).__name__.lower())
    norm.weight.data[COLUMN] = 4.0
    for name, parameter in model.named_parameters():
        if name.endswith(("wpe.weight", "embed_positions.weight")):
            parameter.data[:, COLUMN] = 0.0
    if getattr(norm, "bias", None) is not None:
        norm.bias.data[COLUMN] = 0.0
