"""The number of profiles: chosen by the elbow of K-Means, with the BIC of the mixture to compare."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from forewarn.errors import MissingExtraError

if TYPE_CHECKING:
    from sklearn.mixture import GaussianMixture

MOST = 8  # profiles
# Added to each variance of the standardised logs. A request that thousands of jobs share, or a wait of 0, has
# no variance, and a mixture without this floor would spend its profiles on such spikes.
_FLOOR = 0.02


@dataclass(frozen=True, slots=True)
class Curves:
    """The within-cluster sum of squares (WCSS) and the BIC for 1, 2, 3 … profiles.

    Empty where there are too few jobs for more than one profile.
    """

    wcss: tuple[float, ...]
    bic: tuple[float, ...]

    @classmethod
    def of(cls, points: NDArray[np.float64], values: NDArray[np.float64], seed: int) -> Self:
        """Compute the curves: K-Means on all dimensions (`points`), mixtures on the numbers (`values`)."""
        ks = range(1, min(MOST, len(np.unique(values, axis=0))) + 1)
        return cls(
            tuple(_wcss(points, k, seed) for k in ks),
            tuple(float(mixture(values, k, seed).bic(values)) for k in ks),
        )

    @property
    def elbow(self) -> int:
        """Return the number of profiles at which the WCSS bends most."""
        return knee(self.wcss)

    @property
    def lowest_bic(self) -> int:
        """Return the number of profiles at which the BIC is lowest."""
        return int(np.argmin(self.bic)) + 1 if self.bic else 0

    def to_json(self) -> list[dict[str, Any]]:
        """Return one entry for each number of profiles."""
        pairs = zip(self.wcss, self.bic, strict=True)
        return [{"k": k, "wcss": wcss, "bic": bic} for k, (wcss, bic) in enumerate(pairs, 1)]

    @classmethod
    def from_json(cls, value: Sequence[Any]) -> Self:
        """Read what the bundle stores."""
        return cls(tuple(point["wcss"] for point in value), tuple(point["bic"] for point in value))


def knee(curve: Sequence[float]) -> int:
    """Find the place, from 1, of the point that lies farthest below the straight line from first to last.

    >>> knee([100, 60, 20, 18, 16, 14, 12, 10])
    3
    >>> knee([100]), knee([100, 50])
    (1, 2)
    """
    if len(curve) < 3:
        return len(curve)
    chord = np.linspace(curve[0], curve[-1], len(curve))
    return int(np.argmax(chord - np.asarray(curve))) + 1


def mixture(values: NDArray[np.float64], k: int, seed: int, starts: int = 1) -> GaussianMixture:
    """Fit a Gaussian mixture with full covariances, the one with the highest likelihood of several starts."""
    try:
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.mixture import GaussianMixture
        from threadpoolctl import threadpool_limits
    except ImportError:
        raise MissingExtraError("profiles need scikit-learn: pip install 'forewarn[train]'") from None

    # Sums over several threads depend on their order: one thread gives the same mixture every time.
    with warnings.catch_warnings(), threadpool_limits(1):
        # A mixture that has not quite converged is still usable; the BIC measures how well it fits.
        warnings.simplefilter("ignore", ConvergenceWarning)
        gaussians = GaussianMixture(k, reg_covar=_FLOOR, max_iter=200, n_init=starts, random_state=seed)
        return gaussians.fit(values)


def _wcss(points: NDArray[np.float64], k: int, seed: int) -> float:
    from sklearn.cluster import KMeans
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        return float(KMeans(k, n_init=4, random_state=seed).fit(points).inertia_)
