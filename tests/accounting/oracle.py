"""Slow, obvious privacy loss of a Poisson-sampled Gaussian: quadrature over outputs, then FFT.

It shares nothing with the package: atoms come from outputs, not from losses; they are split so
that the mean is kept, not rounded up; and it says nothing about the side on which it errs.
"""

import numpy as np
from scipy.optimize import brentq
from scipy.special import logsumexp
from scipy.stats import norm


def oracle_epsilon(q: float, noise: float, steps: int, delta: float) -> tuple[float, float]:
    """Epsilon to add or remove one, and how far a coarser lattice is from it."""
    fine, coarse = (_both(q, noise, steps, delta, 1 << bits) for bits in (18, 17))
    return fine, abs(fine - coarse)


def _both(q: float, noise: float, steps: int, delta: float, lattice: int) -> float:
    remove = _one(q, noise, steps, delta, "remove", lattice)
    if -steps * np.log1p(-q) <= remove:  # no loss to add is larger than this
        return remove
    return max(remove, _one(q, noise, steps, delta, "add", lattice))


def _atoms(q: float, noise: float, side: str, n: int = 100_001) -> tuple[np.ndarray, np.ndarray]:
    x = np.linspace(-15 * noise, 1 + 15 * noise, n)
    base = norm.logpdf(x, 0, noise)
    mixed = base + np.log1p(q * np.expm1(np.minimum((2 * x - 1) / (2 * noise**2), 30)))
    high = (2 * x - 1) / (2 * noise**2) > 30
    mixed[high] = np.logaddexp(np.log1p(-q) + base, np.log(q) + norm.logpdf(x, 1, noise))[high]
    loss = mixed - base
    log_p, loss = (mixed, loss) if side == "remove" else (base, -loss)
    return loss, log_p - logsumexp(log_p)


def _one(q: float, noise: float, steps: int, delta: float, side: str, lattice: int) -> float:
    loss, log_p = _atoms(q, noise, side)
    if steps == 1:
        return _root(lambda e: _hockey_stick(loss, np.exp(log_p), e), delta)

    def log_mgf(t: float) -> float:
        return steps * float(logsumexp(t * loss + log_p))

    def moments(t: float) -> tuple[float, float]:
        w = np.exp(t * loss + log_p - logsumexp(t * loss + log_p))
        mean = float(w @ loss)
        return steps * mean, float(np.sqrt(steps * (w @ (loss - mean) ** 2)))

    def chernoff(t: float) -> float:
        return log_mgf(t) - t * moments(t)[0] - np.log(delta)

    tilt = _rising_root(lambda t: -chernoff(t))
    epsilon = np.inf
    for _ in range(2):
        centre, spread = moments(tilt)
        width = min(80 * spread, 1.1 * steps * float(np.ptp(loss)))
        h = max(width, 3 * float(np.ptp(loss)) / lattice) / lattice
        place = loss / h
        index = np.floor(place).astype(np.int64)
        upper = place - index
        weight = np.exp(tilt * loss + log_p - log_mgf(tilt) / steps)
        ring = np.bincount(index % lattice, weight * (1 - upper), minlength=lattice)
        ring += np.bincount((index + 1) % lattice, weight * upper, minlength=lattice)
        mass = np.fft.irfft(np.fft.rfft(ring) ** steps, lattice)
        grid = np.arange(round(centre / h) - lattice // 2, round(centre / h) + lattice // 2)
        y, p = grid * h, np.maximum(mass[grid % lattice], 0)
        p = np.where(p > 1e-17, p, 0)
        p = p * np.exp(np.minimum(log_mgf(tilt) - tilt * y, 600))
        epsilon = _root(lambda e, y=y, p=p: _hockey_stick(y, p, e), delta)
        if epsilon == 0:
            return 0.0
        if epsilon > moments(0.0)[0]:
            tilt = _rising_root(lambda t, e=epsilon: moments(t)[0] - e)
    return epsilon


def _hockey_stick(loss: np.ndarray, p: np.ndarray, epsilon: float) -> float:
    above = loss > epsilon
    return float(p[above] @ -np.expm1(epsilon - loss[above]))


def _root(delta_of, delta: float) -> float:
    if delta_of(0.0) <= delta:
        return 0.0
    high = 1e-9
    while delta_of(high) > delta:
        high *= 4
    return float(brentq(lambda e: delta_of(e) - delta, 0, high, xtol=1e-14, rtol=1e-8))


def _rising_root(function) -> float:
    high = 1e-6
    while function(high) < 0:
        high *= 4
        if high > 1e9:
            return 0.0
    return float(brentq(function, 0, high, rtol=1e-6)) if function(0.0) < 0 else 0.0
