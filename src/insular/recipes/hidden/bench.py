"""What the cells of a sweep share: model, held prompts, arrays and fits, once in each process."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal, final

from insular.errors import InvalidArgumentError
from insular.recipes.hidden.spec import SweepSpec
from insular.recipes.hidden.text import Prompts, choose_prompts, read_text

if TYPE_CHECKING:
    import torch

    from insular.hidden.geometry.release_geometry import ReleaseGeometry
    from insular.hidden.mechanisms import Release
    from insular.hidden.retrieval.attackers import Attacker
    from insular.hidden.retrieval.bank import CandidateBank
    from insular.hidden.states.forward import SplitDecoder
    from insular.hidden.states.prompts import HeldPrompts
    from insular.hidden.utility.calibration_results import CalibrationResult, CalibrationStatus
    from insular.models.loading import Decoder
    from insular.recipes.hidden.inversion.spec import HiddenInversionSpec

_BENCHES: "dict[tuple[SweepSpec, Path], Bench]" = {}
"""The sweep that this process works on: cells after the first one load nothing."""


@final
@dataclass(kw_only=True, eq=False)
class LayerBench:
    """One layer, ready for mechanisms and attackers."""

    layer: int
    """Which."""
    bank: "torch.Tensor"
    """States of the candidates, float64."""
    random: "ReleaseGeometry"
    """Geometry whose differences are those of random pairs."""
    near: "ReleaseGeometry"
    """Geometry whose differences are those of nearest neighbours."""
    identities: tuple[str, ...]
    """Digest of each candidate's prompt."""
    _banks: "dict[str, CandidateBank]" = field(default_factory=dict)

    def prepared(self, attacker: "Attacker", *, keep: bool) -> "CandidateBank":
        """The bank as an attacker sees it.

        Args:
            attacker: Who.
            keep: Whether it serves other cells too, under the attacker's name.

        Returns:
            The bank.
        """
        from insular.hidden.retrieval.bank import prepare_bank

        if attacker.name in self._banks:
            return self._banks[attacker.name]
        found = prepare_bank(attacker, self.bank, identities=self.identities)
        if keep:
            self._banks[attacker.name] = found
        return found


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class ScaledMechanism:
    """What became of one mechanism that was to cost a measured KL."""

    status: "CalibrationStatus | Literal['not fitted']"
    """Whether it has a release at that cost."""
    reason: str = ""
    """Why it was not fitted."""
    nominal: "Release | None" = None
    """The fitted release at scale 1; None if not fitted."""
    search: "CalibrationResult | None" = None
    """The search for the scale; None if not fitted."""

    @property
    def release(self) -> "Release | None":
        """The release at the scale that was found; None unless reached."""
        if self.nominal is None or self.search is None or self.search.scale is None:
            return None
        return self.nominal.scaled(self.search.scale**2)


@final
class Bench:
    """One sweep in one process.

    Args:
        spec: The sweep.
        states: Folder of its states.
    """

    def __init__(self, spec: SweepSpec, states: Path) -> None:
        self.spec = spec
        self._states = states
        self._layer: LayerBench | None = None
        self._fitted: tuple[tuple[int, str], Release] | None = None

    @cached_property
    def decoder(self) -> "Decoder":
        """The model."""
        return load_model(self.spec)

    @cached_property
    def split(self) -> "SplitDecoder":
        """The model, cut at its layers."""
        from insular.hidden.states.forward import SplitDecoder

        return SplitDecoder(self.decoder.model)

    @cached_property
    def prompts(self) -> Prompts:
        """The prompts in their roles."""
        corpus = read_text(self.spec)
        return choose_prompts(corpus, self.decoder.encode, self.spec)

    @cached_property
    def calibration(self) -> "HeldPrompts":
        """What scales are found on."""
        return self._hold(self.prompts.calibration)

    @cached_property
    def evaluation(self) -> "HeldPrompts":
        """What utility is measured on: the first queries."""
        return self._hold(self.prompts.bank[: self.spec.evaluation])

    @cached_property
    def seen_before(self) -> tuple[str, ...]:
        """Digests of all prompts that shaped or scaled a release."""
        from insular.hidden.states.prompts import prompt_digest

        fitted = (prompt_digest(record.tokens[:-1]) for record in self.prompts.fit)
        return (*fitted, *self.calibration.digests)

    def at(self, layer: int) -> LayerBench:
        """One layer; the one that was used last is kept.

        Args:
            layer: Which.

        Returns:
            It.
        """
        if self._layer is None or self._layer.layer != layer:
            self._layer = None  # before the next one is read: two need twice the memory
            self._layer = self._read(layer)
        return self._layer

    def scaled(
        self, layer: int, mechanism: str, *, kl_nats: float, judged_on: Sequence[str], seed: int
    ) -> ScaledMechanism:
        """A mechanism fitted to a layer and scaled to a measured KL.

        Args:
            layer: The layer.
            mechanism: Its name.
            kl_nats: The measured KL that it is to cost, in nats.
            judged_on: Digests of the prompts that it will be judged on: none may scale it.
            seed: Of the draws.

        Returns:
            The release, or why there is none.
        """
        from insular.hidden.utility.calibration import calibrate_scale

        try:
            nominal = self.release(layer, mechanism, budget_nats=kl_nats)
        except InvalidArgumentError as error:
            return ScaledMechanism(status="not fitted", reason=str(error))
        search = calibrate_scale(
            self.split,
            self.calibration,
            layer=layer,
            sampler=nominal,
            target_kl_nats=kl_nats,
            evaluation_digests=judged_on,
            seed=seed,
        )
        return ScaledMechanism(status=search.status, nominal=nominal, search=search)

    def release(self, layer: int, mechanism: str, *, budget_nats: float) -> "Release":
        """A mechanism fitted to a layer; the one that was used last is kept.

        Args:
            layer: The layer.
            mechanism: Its name.
            budget_nats: First-order budget of its noise.

        Returns:
            The release.
        """
        from insular.recipes.hidden.mechanisms import NEAR, mechanism_named

        key = (layer, mechanism)
        if self._fitted is None or self._fitted[0] != key:
            bench = self.at(layer)
            geometry = bench.near if mechanism in NEAR else bench.random
            fitted = mechanism_named(mechanism, self.spec).fit(geometry, budget_nats=1.0)
            self._fitted = (key, fitted)
        return self._fitted[1].scaled(budget_nats)

    def _hold(self, records: tuple) -> "HeldPrompts":
        """Run prompts once and keep what the tail needs."""
        from insular.hidden.states.prompts import hold_prompts

        return hold_prompts(
            self.split,
            records,
            layers=self.spec.layers,
            labels="last_token",
            pad_token_id=self.decoder.pad_token_id,
            batch_tokens=self.spec.batch_tokens,
        )

    def _read(self, layer: int) -> LayerBench:
        """Read one layer and estimate its geometry."""
        import torch

        from insular.recipes.hidden.mechanisms import fitted_geometries
        from insular.recipes.hidden.states import open_states

        states = open_states(self._states)
        arrays = states.layer(layer)
        random, near = fitted_geometries(
            torch.tensor(arrays.fit).double(),
            torch.tensor(arrays.gradients).double(),
            shrinkage=self.spec.shrinkage,
        )
        return LayerBench(
            layer=layer,
            bank=torch.tensor(arrays.bank).double(),
            random=random,
            near=near,
            identities=states.bank.prompt_digests,
        )


def load_model(
    spec: "SweepSpec | HiddenInversionSpec", *, progress: Callable[[str], None] | None = None
) -> "Decoder":
    """The model of a run, as its settings ask for it.

    Args:
        spec: The run.
        progress: Called before long steps.

    Returns:
        The model.
    """
    from insular.models.loading import load_decoder

    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    return load_decoder(
        spec.model,
        dtype=spec.dtype,
        device=spec.device,
        attention=spec.attention,
        progress=progress,
    )


def bench_of(spec: SweepSpec, states: Path) -> Bench:
    """The sweep that this process works on.

    Args:
        spec: The sweep.
        states: Folder of its states.

    Returns:
        Its bench, made once.
    """
    key = (spec, states)
    if key not in _BENCHES:
        forget_bench()
        _BENCHES[key] = Bench(spec, states)
    return _BENCHES[key]


def forget_bench() -> None:
    """Let go of model and arrays."""
    _BENCHES.clear()
