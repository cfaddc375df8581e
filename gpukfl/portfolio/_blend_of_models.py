"""What a fitted portfolio predicts: the blend of all models, or of those of one fold."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from gpukfl.core._array import Array, to_host
from gpukfl.portfolio._attributes import Blended, OutOfFold
from gpukfl.portfolio._encodings import Encodings
from gpukfl.portfolio._evaluators import of_all_classes
from gpukfl.prediction import Blending, TargetTransform, check_finite_prediction
from gpukfl.tables._seen import Seen


class BlendOfModels:
    """The members of a portfolio, whose models predict together."""

    members_: list[Blended]
    out_of_fold_: OutOfFold
    floor_: float
    encodings_: Encodings | None
    reach_: Array | None
    target_transform_: TargetTransform | None
    temperature_: float
    whole_: bool

    @property
    def _n_classes(self) -> int:
        """Number of classes; 0 of a regression, which has none."""
        return len(getattr(self, "classes_", ()))

    def _outputs(self, X: Array, fold: int | None = None, /) -> Array:
        """Blend (n, t) at validated rows, in float64; by the models of one fold, or of all."""
        seen = self._seen(X)
        return self._mixed(lambda member, k: self._of_model(member, k, seen), fold)

    def _mixed(self, of_model: Callable[[Blended, int], Array], fold: int | None) -> Array:
        """Blend what models say: those of one fold, or all."""
        blending = self._blending(whole=self.whole_ and fold is None)

        def mean(member: Blended) -> Array:
            folds = range(len(member.models)) if fold is None else [fold]
            return blending.mean([of_model(member, k) for k in folds], member.residuals)

        return blending.total((member.weight, mean(member)) for member in self.members_)

    def _seen(self, X: Array) -> Seen:
        """Return validated rows, of which each model sees what it takes."""
        return Seen(X) if self.encodings_ is None else self.encodings_.seen(X)

    def _of_model(self, member: Blended, fold: int, seen: Seen) -> Array:
        """Predictions of one of a member's models."""
        found = member.evaluators[fold](seen.by(fold, member.sees))
        return of_all_classes(found, member.models[fold], self._n_classes)

    def _blending(self, *, whole: bool) -> Blending:
        """Return what joins predictions of models."""
        return Blending(
            self._n_classes > 0,
            self.floor_,
            self.temperature_,
            self.reach_,
            self.target_transform_,
            whole,
        )

    @property
    def _has_folds(self) -> bool:
        """Whether members have the models of the folds, alone or beside one of all samples."""
        n_folds = self.out_of_fold_.n_folds
        return all(len(member.models) - self.whole_ >= n_folds for member in self.members_)

    def _by_fold(self, X: Array, /) -> np.ndarray:
        """Blends (K, n, t) of each fold's models at validated rows, on the host.

        Their mean is what all models predict together. Where members have a model of all samples
        alone, it is each fold's.
        """
        n_folds, seen = self.out_of_fold_.n_folds, self._seen(X)
        of_model = functools.cache(lambda member, k: self._of_model(member, k, seen))
        folds = range(n_folds) if self._has_folds else ()
        moved = self.whole_ or self.target_transform_ is not None  # which is of the models' mean
        asked = [*folds, None] if moved else folds
        with np.errstate(over="ignore", invalid="ignore"):  # reported just below
            found = [self._mixed(of_model, k) for k in asked]
        for one in found:
            check_finite_prediction(one, "prediction", one.dtype)
        blends = np.stack([to_host(one) for one in found])
        if not moved:
            return blends
        blends, together = blends[:-1], blends[-1]
        if not folds:
            return np.broadcast_to(together, (n_folds, *together.shape))
        return blends + (together - blends.mean(axis=0))
