"""A value in, a noisy value and an event out.

Build a query (what is asked, under which relation, for whose protection), choose a mechanism, and
release. Noise is secure unless a seeded source is named, and the event says which it was.
"""

from insular.mechanisms.additive import AdditiveMechanism
from insular.mechanisms.clamped import Mean, Sum
from insular.mechanisms.counts import Count, Histogram
from insular.mechanisms.gaussian import AnalyticGaussian, ClassicalGaussian, GaussianMechanism
from insular.mechanisms.laplace import DiscreteLaplace, Laplace
from insular.mechanisms.laws import DiscreteLaplaceLaw, GaussianLaw, LaplaceLaw, NoiseLaw
from insular.mechanisms.queries import DeclaredValue, Query
from insular.mechanisms.randomized_response import RandomizedResponse
from insular.mechanisms.results import FrequencyEstimate, Release
from insular.mechanisms.sources import SECURE, Noise, SecureNoise, SeededNoise

__all__ = [
    "SECURE",
    "AdditiveMechanism",
    "AnalyticGaussian",
    "ClassicalGaussian",
    "Count",
    "DeclaredValue",
    "DiscreteLaplace",
    "DiscreteLaplaceLaw",
    "FrequencyEstimate",
    "GaussianLaw",
    "GaussianMechanism",
    "Histogram",
    "Laplace",
    "LaplaceLaw",
    "Mean",
    "Noise",
    "NoiseLaw",
    "Query",
    "RandomizedResponse",
    "Release",
    "SecureNoise",
    "SeededNoise",
    "Sum",
]
