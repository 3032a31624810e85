"""Samples of the figures of attacks on trained models."""

from insular.reports import (
    ExposureBound,
    ExposurePoint,
    GuessedBound,
    PositionPoint,
    RecoveryPoint,
    RocRow,
    exposure_figure,
    exposure_histogram_figure,
    guesses_figure,
    inversion_figure,
    recovery_figure,
    roc_figure,
)

from .sample import ODD, Sample

RATES = (0.0, 1e-4, 1e-3, 0.01, 0.1, 1.0)
SECRETS = tuple(
    ExposurePoint(repeats=count, bits=min(19.9, 0.4 * i + 3.1 * k), extracted=k == 4 and i > 1)
    for k, count in enumerate((0, 1, 4, 16, 64))
    for i in range(20 if count == 0 else 5)
)
ATTACKS = {
    "exposure": Sample(
        exposure_figure,
        SECRETS,
        {
            "band": (0.4, 3.0),
            "bounds": (
                ExposureBound(repeats=1, bits=2.64),
                ExposureBound(repeats=64, bits=18.0),
            ),
            "most_bits": 19.93,
        },
    ),
    "exposure histogram": Sample(exposure_histogram_figure, SECRETS, {}),
    "guesses": Sample(
        guesses_figure,
        tuple(
            GuessedBound(guesses=n, epsilon=epsilon, ceiling=ceiling)
            for n, epsilon, ceiling in (
                (5, 0.0, 0.2),
                (20, 0.9, 1.8),
                (160, 1.4, 3.9),
                (500, 0.8, 4.95),
                (1000, 0.4, 5.6),
            )
        ),
        {"claimed": 4.09, "fixed": 160},
    ),
    "inversion": Sample(
        inversion_figure,
        tuple(
            PositionPoint(position=i, right=1 - i / 20, first=None if i % 3 else 0.9 - i / 40)
            for i in range(16)
        ),
        {},
    ),
    "recovery": Sample(
        recovery_figure,
        tuple(
            RecoveryPoint(
                release=name,
                storage=storage,
                exact=exact,
                low=max(0.0, exact - 0.07),
                high=min(1.0, exact + 0.07),
                tokens=(1 + exact) / 2,
            )
            for k, storage in enumerate(("float32", "bf16", "int8", "int4"))
            for i, name in enumerate(("clean", "diagonal-inverse-fisher", ODD))
            for exact in (max(0.0, 1 - i / 2 - k / 7),)
        ),
        {},
    ),
    "roc": Sample(
        roc_figure,
        tuple(
            RocRow(
                attack=name,
                false_positive_rate=x,
                true_positive_rate=min(1.0, (3 + i) * x),
                lower=0.02 if x == 0.01 else None,
                upper=0.08 if x == 0.01 else None,
            )
            for i, name in enumerate(("loss", ODD))
            for x in RATES
        ),
        {"promised": tuple((x, min(1.0, 1e-5 + 2.718 * x)) for x in RATES)},
    ),
}
