"""Find the scale at which a mechanism costs a given measured KL."""

import math
from collections.abc import Sequence

import numpy as np

from insular import _check
from insular.errors import InvalidArgumentError
from insular.hidden.states.forward import SplitDecoder
from insular.hidden.states.prompts import HeldPrompts, check_disjoint
from insular.hidden.utility._divergence import Sampler
from insular.hidden.utility._scale_search import ScaleSearch
from insular.hidden.utility.calibration_results import CalibrationResult, CalibrationStep
from insular.hidden.utility.measure import drawn_divergences


def calibrate_scale(
    decoder: SplitDecoder,
    prompts: HeldPrompts,
    *,
    layer: int,
    sampler: Sampler,
    target_kl_nats: float,
    evaluation_digests: Sequence[str],
    seed: int,
    draws: int = 1,
    tolerance: float = 0.02,
    first_scale: float = 1.0,
    scale_bounds: tuple[float, float] = (1e-4, 1e4),
) -> CalibrationResult:
    r"""Search the scale s with :math:`\mathrm{E}\,\mathrm{KL}(p_h \| p_{h + s n}) = K`.

    Bracketed and bisected in log s, with the same random numbers at every scale, so that the
    measured KL is a fixed function of s. Each new point lies where a power law between the ends
    puts it, but at least a tenth of the bracket from either end.

    Guarantees:
        * Equal arguments give the same scale.
        * A reached scale's measured KL is within the tolerance of the target.
        * A target that no scale reaches ends with a status that says why, never with a scale.
        * Prompts that the result will be stated on are refused.

    Args:
        decoder: The decoder.
        prompts: Calibration prompts.
        layer: Where the states are released.
        sampler: The mechanism's draw.
        target_kl_nats: Wanted mean KL per prompt, in nats.
        evaluation_digests: Digests of the prompts that the mechanism will be judged on.
        seed: Seed of the draws.
        draws: Releases of each prompt.
        tolerance: Accepted relative distance from the target.
        first_scale: Where the search starts.
        scale_bounds: Smallest and largest scale that are tried.

    Returns:
        The scale with its Monte-Carlo error, or why there is none.

    Raises:
        InvalidArgumentError: If an argument breaks its rule, or prompts are shared.
    """
    check_disjoint(prompts.digests, evaluation_digests)
    _check.positive_finite(
        target_kl_nats=target_kl_nats, tolerance=tolerance, first_scale=first_scale
    )
    low, high = scale_bounds
    if not 0 < low <= first_scale <= high < math.inf:
        raise InvalidArgumentError(
            f"scale_bounds must be finite, > 0 and hold first_scale={first_scale:g}, "
            f"got scale_bounds={scale_bounds!r}."
        )

    def measured(scale: float) -> np.ndarray:
        return drawn_divergences(
            decoder, prompts, layer=layer, sampler=sampler, seed=seed, scale=scale, draws=draws
        ).kl_nats

    search = ScaleSearch(
        measure=measured,
        target=target_kl_nats,
        tolerance=tolerance,
        low=math.log(low),
        high=math.log(high),
    )
    status, found = search.run(math.log(first_scale))
    error = None if found is None else float(found.kl.std(ddof=1) / math.sqrt(len(found.kl)))
    return CalibrationResult(
        status=status,
        layer=layer,
        target_kl_nats=target_kl_nats,
        scale=None if found is None else found.scale,
        kl_nats=None if found is None else found.mean,
        kl_standard_error_nats=error,
        scale_relative_error=None if found is None else search.relative_error(found),
        tolerance=tolerance,
        n_prompts=prompts.n_prompts,
        draws=draws,
        seed=seed,
        prompt_digests=prompts.digests,
        steps=tuple(
            CalibrationStep(scale=one.scale, kl_nats=one.mean if math.isfinite(one.mean) else None)
            for one in search.points
        ),
    )
