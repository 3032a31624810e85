"""What each module's own code made of records that stayed, one run compared with another."""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import final

import torch
from torch import Tensor

from insular.audit.isolation.measure import same_values
from insular.audit.isolation.probe import CANCELLING_GRADIENTS, Trace, rounding_bound
from insular.audit.localisation._kept_rows import KeptRows, Layout, peak, relative_change
from insular.audit.localisation._tracing import Call, Spot
from insular.audit.localisation.results import OUTSIDE, Phase, Role


@final
@dataclass(frozen=True, kw_only=True)
class _Seen:
    """One tensor of the base run, kept by reference."""

    tensor: Tensor
    layout: Layout
    version: int
    scales: list[float] | None
    """Each record's size of recent gradients, from which this one may have cancelled."""


@final
@dataclass(frozen=True, kw_only=True)
class _Own:
    """Each kept record's rows of one tensor of the base run, and what a change is measured by."""

    rows: list[Tensor]
    scales: list[float] | None


@final
class Recording:
    """What crossed every border in the base run."""

    def __init__(self, kept: KeptRows) -> None:
        self.calls: dict[str, bool] = {}
        self.edited: set[str] = set()
        self.repeated = False
        self._kept = kept
        self._seen: dict[tuple[str, Spot], _Seen] = {}
        self._n_parts: dict[tuple[str, int], int] = {}
        self._peaks: deque[list[float]] = deque(maxlen=CANCELLING_GRADIENTS)

    def visit(self, call: Call, spot: Spot, tensor: Tensor) -> None:
        """Keep a tensor that has rows of records."""
        if spot.border in ("input", "output"):
            # in the order in which they return; True for those that return a tensor
            returned = self.calls.pop(call.key, False) or spot.border == "output"
            self.calls[call.key] = returned
        layout = self._kept.layout(tensor)
        if layout is None:
            return
        scales = None
        if "gradient" in spot.border:
            self._peaks.append([peak(rows) for rows in self._kept.rows(tensor, layout)])
            scales = [max(recent) for recent in zip(*self._peaks, strict=True)]
        if spot.border == "input gradient":
            self._n_parts[call.key, spot.slot] = spot.n_parts
        self.repeated |= (call.key, spot) in self._seen
        self._seen[call.key, spot] = _Seen(
            tensor=tensor, layout=layout, version=tensor._version, scales=scales
        )

    def bound(self) -> float:
        """The rounding bound of the coarsest type that was seen."""
        tensors = {s.tensor.dtype: s.tensor for s in self._seen.values()}
        floats = {str(d): tensor for d, tensor in tensors.items() if d.is_floating_point}
        return rounding_bound(Trace(forward=floats))

    def own(self, key: str, spot: Spot, layout: Layout) -> _Own | None:
        """The kept records' rows at a border, or None if not observed."""
        seen = self._seen.get((key, spot))
        if seen is None or seen.layout != layout:
            return None
        if seen.tensor._version != seen.version:
            self.edited.add(key)
            return None
        return _Own(rows=self._kept.rows(seen.tensor, layout), scales=seen.scales)

    def summed(self, key: str, spot: Spot, layout: Layout) -> _Own | None:
        """The same for the sum of all that a module sends back to one input."""
        n_parts = self._n_parts.get((key, spot.slot), 0)
        spots = (replace(spot, part=part, n_parts=n_parts) for part in range(n_parts))
        parts = [p for p in (self.own(key, s, layout) for s in spots) if p is not None]
        if not parts or len(parts) < n_parts:
            return None
        return _Own(rows=_added([p.rows for p in parts]), scales=parts[-1].scales)

    def same_parts(self, key: str, spot: Spot) -> bool:
        """Whether an input is read as often as in the base run."""
        if spot.border != "input gradient":
            return True
        return self._n_parts.get((key, spot.slot), spot.n_parts) == spot.n_parts


@final
@dataclass(frozen=True, kw_only=True)
class OwnCode:
    """A module's own code in one pass: what it received changed, and what it made of it."""

    received: set[int] = field(default_factory=set)
    originates: dict[int, float] = field(default_factory=dict)
    passes: set[int] = field(default_factory=set)

    def hands_on(self, moved: Iterable[int], by: Callable[[int], float]) -> None:
        """Note which records' values it handed on changed, and by how much."""
        for k in moved:
            if k in self.received:
                self.passes.add(k)
            else:
                self.originates[k] = max(by(k), self.originates.get(k, 0.0))

    def role(self, bound: float) -> Role:
        """The strongest role over records."""
        if any(relative > bound for relative in self.originates.values()):
            return "origin"
        if self.passes:
            return "passes"
        return "rounding" if self.originates else "unchanged"


@final
class Comparison:
    """One run of the other batch against the base run."""

    def __init__(self, base: Recording, kept: KeptRows, *, pinned: bool) -> None:
        self.codes: dict[tuple[str, Phase], OwnCode] = {}
        self.observed: set[str] = set()
        self.first: tuple[str, Phase] | None = None
        self._parts: dict[tuple[str, int], list[list[Tensor]]] = {}
        self._base, self._kept, self._pinned = base, kept, pinned
        self._bound = base.bound()

    def visit(self, call: Call, spot: Spot, tensor: Tensor) -> Tensor | None:
        """Compare a tensor; return it set back to the base run if pinned and moved."""
        layout = self._kept.layout(tensor)
        if layout is None:
            return None
        rows, sent = self._kept.rows(tensor, layout), None
        if self._base.same_parts(call.key, spot):
            base = self._base.own(call.key, spot, layout)
        else:
            # read more or less often than in the base run: only the sum can be compared
            parts = self._parts.setdefault((call.key, spot.slot), [])
            parts.append(rows)
            if len(parts) < spot.n_parts:
                return None
            base = self._base.summed(call.key, spot, layout)
            rows, sent = _added(parts), _added(parts[:-1])
        if base is None or [r.shape for r in rows] != [r.shape for r in base.rows]:
            return None
        moved = self._compare(call, spot, base, rows=rows)
        if not (moved and self._pinned):
            return None
        wanted = {k: base.rows[k] - sent[k] if sent else base.rows[k] for k in moved}
        return self._kept.set_back(tensor, layout, wanted)

    def _compare(self, call: Call, spot: Spot, base: _Own, *, rows: list[Tensor]) -> list[int]:
        """The records that moved, after noting whose doing it is."""
        if spot.border == "output":
            self.observed.add(call.key)
        pairs = list(zip(base.rows, rows, strict=True))
        moved = [k for k, pair in enumerate(pairs) if not same_values(*pair)]
        scales = base.scales or [None] * len(pairs)
        if moved:
            self._attribute(
                call, spot, moved, lambda k: relative_change(*pairs[k], scale=scales[k])
            )
        return moved

    def code(self, key: str, phase: Phase) -> OwnCode:
        """What one module's own code did in one pass."""
        return self.codes.setdefault((key, phase), OwnCode())

    def _attribute(
        self, call: Call, spot: Spot, moved: list[int], by: Callable[[int], float]
    ) -> None:
        """Note who handed a changed tensor on, and who received it."""
        caller = OUTSIDE if call.caller is None else call.caller.key
        inner = spot.border in ("output", "input gradient")
        giver, taker = (call.key, caller) if inner else (caller, call.key)
        phase: Phase = "backward" if "gradient" in spot.border else "forward"
        code = self.code(giver, phase)
        code.hands_on(moved, by)
        if self.first is None and code.role(self._bound) == "origin":
            self.first = giver, phase
        if self._pinned:
            return
        self.code(taker, "backward").received.update(moved)
        if phase == "forward":
            self.code(taker, "forward").received.update(moved)


def _added(parts: list[list[Tensor]]) -> list[Tensor]:
    """Each record's rows, summed over parts; nothing of no parts."""
    return [torch.stack(rows).sum(dim=0) for rows in zip(*parts, strict=True)]
