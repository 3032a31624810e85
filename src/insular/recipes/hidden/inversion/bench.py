"""What the tasks of an inversion share: model, prompts, states and tables, once in each process."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, final

from insular.recipes.hidden.bench import load_model
from insular.recipes.hidden.inversion.geometry import fit_geometries
from insular.recipes.hidden.inversion.prompts import InversionInputs, generator_of, read_inputs
from insular.recipes.hidden.inversion.spec import HiddenInversionSpec
from insular.recipes.hidden.spec import NO_MECHANISM

if TYPE_CHECKING:
    from torch import Tensor

    from insular.hidden.geometry.release_geometry import ReleaseGeometry
    from insular.hidden.inversion.token_ranking import TokenRanking
    from insular.hidden.inversion.token_table import TokenTable
    from insular.hidden.inversion.views import View
    from insular.hidden.mechanisms import Release
    from insular.hidden.states.forward import SplitDecoder
    from insular.hidden.states.prompts import HeldPrompts
    from insular.hidden.states.storage_spec import StorageFormat
    from insular.models.loading import Decoder


@final
@dataclass(frozen=True, kw_only=True)
class Shared:
    """What tells a process which inversion it works on. Holds no text."""

    spec: HiddenInversionSpec
    """The run."""
    out: Path
    """Its folder, in which fitted releases lie."""
    reserved: tuple[str, ...]
    """Ids of records that the token tables are made from."""
    model_digest: str
    """Digest of the model's files."""
    tables: tuple[tuple[int, str], ...]
    """Layers, and the key of each one's token table in the cache."""

    def release_path(self, layer: int, mechanism: str) -> Path:
        """Where a mechanism is kept that was fitted and scaled here.

        Args:
            layer: Its layer.
            mechanism: Its name.

        Returns:
            The file; it need not exist.
        """
        return self.out / f"release-{layer}-{mechanism}.safetensors"


@final
class Bench:
    """One inversion in one process; of layers and cells, the one that was used last is kept.

    Args:
        shared: The inversion.
        loaded: Its model, whole and cut at its layers, where this process has it already.
    """

    def __init__(
        self, shared: Shared, *, loaded: "tuple[Decoder, SplitDecoder] | None" = None
    ) -> None:
        self.shared = shared
        self.spec = shared.spec
        self._loaded = loaded
        self._tables: dict[int, TokenTable] = {}
        self._states: dict[tuple[int, int], Tensor] = {}
        self._geometries: dict[tuple[int, bool], ReleaseGeometry] = {}
        self._held: dict[int, HeldPrompts] = {}
        self._releases: dict[tuple[int, str], Release] = {}
        self._rankings: dict[tuple[int, str, StorageFormat], TokenRanking] = {}

    @cached_property
    def decoder(self) -> "Decoder":
        """The model."""
        return self._loaded[0] if self._loaded else load_model(self.spec)

    @cached_property
    def split(self) -> "SplitDecoder":
        """The model, cut at its layers."""
        from insular.hidden.states.forward import SplitDecoder

        return self._loaded[1] if self._loaded else SplitDecoder(self.decoder.model)

    @cached_property
    def inputs(self) -> InversionInputs:
        """The prompts."""
        return read_inputs(self.spec, self.decoder, reserved=self.shared.reserved)

    def table(self, layer: int) -> "TokenTable":
        """The token table of a layer, which the cache holds.

        Args:
            layer: The layer.

        Returns:
            It.
        """
        from insular.hidden.inversion.token_table_cache import load_token_table, table_path

        if layer not in self._tables:
            for kept in (self._tables, self._states, self._rankings):
                kept.clear()  # before the next one is read: two need twice the memory
            key = dict(self.shared.tables)[layer]
            path = table_path(self.shared.model_digest, layer=layer, key=key)
            self._tables[layer] = load_token_table(path, key=key)
        return self._tables[layer]

    def states(self, layer: int, at: int) -> "Tensor":
        """The states of one prompt before any release of this run: float32, on the CPU.

        Args:
            layer: The layer.
            at: Place of the prompt.

        Returns:
            One row a position.
        """
        from insular.records.batches import collate
        from insular.records.tokens import TokenisedRecord

        one = self.inputs.trajectories[at]
        if one.states is not None:
            return one.states
        if (layer, at) not in self._states:
            record = TokenisedRecord(id=one.id, owner=one.id, tokens=one.truth or ())
            # alone: a state must not depend on which prompts this process works on
            batch = collate([record], pad_token_id=0, device=self.split.device)
            found = self.split.states(batch, layers=[layer])[layer][0]
            self._states[layer, at] = found.float().cpu()
        return self._states[layer, at]

    def geometry(self, layer: int, *, near: bool) -> "ReleaseGeometry":
        """What mechanisms of a layer are fitted to, from prompts that are not inverted.

        Args:
            layer: The layer.
            near: Whether differences are those of nearest neighbours.

        Returns:
            The geometry.
        """
        if (layer, near) not in self._geometries:
            self._geometries.clear()
            both = fit_geometries(
                self.split,
                self.inputs.others[: self.spec.fit],
                layer=layer,
                pad_token_id=self.decoder.pad_token_id,
                seed=self.spec.seed,
            )
            self._geometries = {(layer, False): both[0], (layer, True): both[1]}
        return self._geometries[layer, near]

    def scaled_on(self, layer: int) -> "HeldPrompts":
        """Prompts on which a layer's mechanisms are scaled; none is inverted or fitted on.

        Args:
            layer: The layer.

        Returns:
            They, run once for all its mechanisms.
        """
        from insular.hidden.states.prompts import hold_prompts

        if layer not in self._held:
            self._held.clear()
            self._held[layer] = hold_prompts(
                self.split,
                self.inputs.others[self.spec.fit :],
                layers=[layer],
                labels="none",
                pad_token_id=self.decoder.pad_token_id,
            )
        return self._held[layer]

    def release(self, layer: int, mechanism: str) -> "Release | None":
        """What a cell's states went through.

        Args:
            layer: The layer.
            mechanism: Its name.

        Returns:
            The release at its scale; None for clean states.
        """
        from insular.hidden.mechanisms import load_release

        if mechanism == NO_MECHANISM and not self.spec.release:
            return None
        if (layer, mechanism) not in self._releases:
            self._releases.clear()
            path = self.spec.release or self.shared.release_path(layer, mechanism)
            self._releases[layer, mechanism] = load_release(path)
        return self._releases[layer, mechanism]

    def view(self, layer: int, mechanism: str, storage: "StorageFormat", at: int) -> "View":
        """One prompt's states as released and stored.

        Args:
            layer: The layer.
            mechanism: The release.
            storage: How states are kept.
            at: Place of the prompt, from which its noise follows.

        Returns:
            What an attacker sees of it.
        """
        from insular.hidden.inversion.views import make_view
        from insular.hidden.states.storage import Storage

        table, release = self.table(layer), self.release(layer, mechanism)
        states = self.states(layer, at)
        if release is not None and not self.spec.states:
            states = release.sample(states, generator=generator_of(self.spec.seed, at)).float()
        stored = Storage(format=storage, every=self.spec.every).store(states)
        return make_view(stored, rounding=table.rounding, release=release)

    def ranking(self, layer: int, mechanism: str, storage: "StorageFormat") -> "TokenRanking":
        """The ranking of a cell, by what its first prompt shows of noise and storage.

        Args:
            layer: The layer.
            mechanism: The release.
            storage: How states are kept.

        Returns:
            One ranking for all its prompts, whichever a process works on.
        """
        from insular.hidden.inversion.token_ranking import TokenRanking
        from insular.hidden.inversion.views import ranking_covariance

        key = (layer, mechanism, storage)
        if key not in self._rankings:
            self._rankings.clear()
            added = ranking_covariance(self.view(layer, mechanism, storage, 0))
            self._rankings[key] = TokenRanking(self.table(layer), added=added)
        return self._rankings[key]


_BENCHES: dict[Shared, Bench] = {}
"""The inversion that this process works on: tasks after the first one load nothing."""


def bench_of(shared: Shared) -> Bench:
    """The inversion that this process works on.

    Args:
        shared: The inversion.

    Returns:
        Its bench, made once.
    """
    if shared not in _BENCHES:
        remember(Bench(shared))
    return _BENCHES[shared]


def remember(bench: Bench) -> Bench:
    """Let the tasks of an inversion find a bench in this process.

    Args:
        bench: It.

    Returns:
        The same.
    """
    forget_bench()
    _BENCHES[bench.shared] = bench
    return bench


def forget_bench() -> None:
    """Let go of model, tables and states."""
    _BENCHES.clear()
