"""Encodings from codes to finite numbers, learned on training rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np

from gpukfl import estimators
from gpukfl.core._array import Array, array_namespace, asarray_like, is_host
from gpukfl.core._checks import check_choice
from gpukfl.core._warnings import collect_warnings, warn
from gpukfl.predictor import Predictor
from gpukfl.tables._column import Coded, TupleFields
from gpukfl.tables._lookups import Lookup, learn_lookup, lookup_width, select_columns
from gpukfl.tables._table import Table

# ------------------------------------------------------------------------------- layout


_STEPS = 2.0**40


class Groups(NamedTuple):
    """The indices of columns of codes by kind."""

    numbers: list[int]
    cyclic: list[int]  # cyclic numbers, such as hours
    gaps: list[int]  # numbers with an indicator of missing values
    levels: list[int]


class Output(NamedTuple):
    """An encoded column."""

    name: str
    column: int  # the column of codes
    weighed: bool  # whether it keeps its scale
    has_targets: bool  # whether it holds target means


def waves(angles: Any, /) -> tuple[Any, Any]:
    """Return sines and cosines rounded to 2⁻⁴⁰, so that equal angles are equal.

    Without rounding, ranks would depend on last bits: those of the cosines of 30 and 330 degrees
    differ between libraries and processors.
    """
    xp = array_namespace(angles)
    # In ONNX runtimes the cosine is float32 and the sine is float64
    cosine = xp.cos(angles) if is_host(angles) else xp.sin(angles + 0.5 * np.pi)
    sine, cosine = (xp.floor(wave * _STEPS + 0.5) / _STEPS for wave in (xp.sin(angles), cosine))
    return sine, cosine


def group_by_kind(coded: Sequence[Coded], /) -> Groups:
    """Group columns of codes by kind."""
    every = list(enumerate(coded))
    return Groups(
        [j for j, one in every if not one.levels and not one.period],
        [j for j, one in every if one.period],
        [j for j, one in every if one.gaps and not one.levels],
        [j for j, one in every if one.levels],
    )


def output_columns(coded: Sequence[Coded], widths: Sequence[int], /) -> list[list[int]]:
    """Return the encoded columns of each column of codes; `widths` are those of levels.

    A number comes before its indicator, a sine before its cosine.
    """
    groups = group_by_kind(coded)
    levels = [j for j, width in zip(groups.levels, widths, strict=True) for _ in range(width)]
    places: list[list[int]] = [[] for _ in coded]
    order = (*groups.numbers, *groups.cyclic, *groups.cyclic, *groups.gaps, *levels)
    for k, j in enumerate(order):
        places[j].append(k)
    return places


def iterate_columns(
    columns: Iterable[np.ndarray], coded: Sequence[Coded]
) -> Iterator[tuple[int, np.ndarray, Coded]]:
    """Yield the index, codes and description of each column, with one column in memory.

    Raises ValueError if there are more or fewer columns than descriptions.
    """
    given, nothing = iter(columns), np.empty(0)
    for j, one in enumerate(coded):
        codes = next(given, nothing)
        if codes is nothing:
            msg = f"expected {len(coded)} columns of codes, got {j}"
            raise ValueError(msg)
        yield j, codes, one
        del codes
    if next(given, nothing) is not nothing:
        msg = f"expected {len(coded)} columns of codes, got more"
        raise ValueError(msg)


# ---------------------------------------------------------------------- missing numbers


_FEWEST, _MOST = 10, 2000  # rows that an imputation model is fitted to


@dataclass(frozen=True, eq=False)
class Imputation(TupleFields):
    """An imputation model of one numeric column.

    Attributes
    ----------
    column : int
        The column of codes.
    inputs : tuple of int
        Encoded columns that it is predicted from, with medians for missing values.
    model : Predictor
        A kernel ridge regression.
    """

    column: int
    inputs: tuple[int, ...]
    model: Predictor

    def __call__(self, X: np.ndarray, /) -> np.ndarray:
        """Return the imputed numbers (n,) of encoded rows (n, d)."""
        return np.asarray(self.model.evaluate(X[:, self.inputs]))[:, 0]

    def predict_symbolically(self, X: Array, /) -> Array:
        """Return the imputed numbers (n, 1) of traced rows (n, d)."""
        placed = self.model.map_arrays(array_namespace(X).asarray)
        return placed.values(select_columns(X, list(self.inputs)))


def learn_imputation(
    column: int,
    truth: np.ndarray,
    X: np.ndarray,
    inputs: Sequence[int],
    weights: np.ndarray | None,
    rng: np.random.Generator,
    /,
) -> Imputation | None:
    """Learn the imputation of numbers (n,), some NaN, from encoded rows (n, d).

    At most 2000 rows are drawn. Returns None if rows are too few or nothing varies.
    """
    rows = np.flatnonzero(~np.isnan(truth))
    if len(rows) > _MOST:
        rows = np.sort(rng.choice(rows, _MOST, replace=False))
    if len(rows) < _FEWEST or not np.ptp(truth[rows]) or not np.ptp(X[rows], axis=0)[inputs].any():
        return None
    model = estimators.KernelRidgeRegressor(random_state=int(rng.integers(2**31)))
    with collect_warnings():  # an inner fit does not warn
        w = None if weights is None else weights[rows]
        model.fit(X[rows][:, inputs], truth[rows], sample_weight=w)
    return Imputation(column, tuple(inputs), model.to_host().predictor_)


# ----------------------------------------------------------------------------- encoding


IMPUTE = ("median", "model")
_BLOCK_ROWS = 2**15  # rows encoded at once
_MAX_ROUNDING = 1e-4  # share of a column's range; coarser float32 steps are warned of


@dataclass(frozen=True, eq=False)
class Category:
    """A category of few levels with an encoded column for each.

    Attributes
    ----------
    name : str
        The table's column.
    columns : tuple of int
        All its encoded columns.
    marks : tuple of int
        The indicators of levels among these.
    levels : tuple of str
        The level of each indicator.
    """

    name: str
    columns: tuple[int, ...]
    marks: tuple[int, ...]
    levels: tuple[str, ...]

    def examples(self, X: np.ndarray, /) -> tuple[np.ndarray, tuple[str, ...]]:
        """Return the values (g, c) of `columns` at each level, and the levels' names."""
        marks = X[:, self.marks]
        level = np.where(marks.any(axis=1), marks.argmax(axis=1), len(self.marks))
        present = np.unique(level)
        names = [(*self.levels, "another")[k] for k in present]  # another: new since the fit
        # Rows of a level are equal, except for imputed numbers
        found = np.stack([np.median(X[level == k][:, self.columns], axis=0) for k in present])
        if len(self.columns) > len(self.marks):  # a code: sort by its number, missing last
            order = np.lexsort([found[:, 0], np.array(names) == "missing"])
            found, names = found[order], [names[k] for k in order]
        return found, tuple(names)


def find_categories(encoding: Encoding, /) -> tuple[Category, ...]:
    """Return the categories whose levels have columns."""
    outputs, sources = encoding.outputs, np.asarray(encoding.sources, dtype=np.int64)
    codes = np.array([one.column for one in outputs], dtype=np.int64)
    found = []
    for j, coded in enumerate(encoding.coded):
        marks = np.flatnonzero(codes == j)
        if not coded.levels or not all(outputs[k].weighed for k in marks):
            continue
        # A code also has a column of numbers
        columns = np.flatnonzero(sources == coded.source)
        levels = [*coded.labels, *["missing"] * coded.gaps]
        found.append(
            Category(coded.name, tuple(columns.tolist()), tuple(marks.tolist()), tuple(levels))
        )
    return tuple(found)


def are_consistent(table: Table, encoding: Encoding, /) -> bool:
    """Whether an encoding from a file fits the codes of a table."""
    try:
        if not (_is_finite(table) and _is_finite(encoding)):
            return False
        if tuple(encoding.coded) != tuple(table.coded):
            return False
        levels = np.array([float(one.levels) for one in table.coded])
        probes = np.stack([levels, np.full_like(levels, np.nan)])
        found = encoding.transform(probes)
    except (TypeError, ValueError, LookupError, AttributeError):
        return False
    return found.shape == (2, encoding.n_features) and bool(np.isfinite(found).all())


def _is_finite(value: Any) -> bool:
    """Whether all arrays inside a value are finite and float64."""
    if isinstance(value, np.ndarray):
        return value.dtype == np.float64 and bool(np.isfinite(value).all())
    if isinstance(value, tuple):
        return all(map(_is_finite, value))
    return not is_dataclass(value) or all(_is_finite(getattr(value, f.name)) for f in fields(value))


@dataclass(frozen=True, eq=False)
class Encoding(TupleFields):
    """An encoding of codes as finite numbers.

    The encoded columns have this order: numbers, sines and cosines of cyclic numbers, indicators of
    missing numbers, and numbers for levels.

    Attributes
    ----------
    coded : tuple of Coded
        Descriptions of the columns of codes.
    medians : array, shape (c,)
        Median of each column, which replaces missing numbers; 0 for levels and cyclic numbers.
    lookups : tuple of Lookup
        Numbers for each level, for every column of levels.
    imputations : tuple of Imputation
        Models that predict missing numbers better than medians do.
    """

    coded: tuple[Coded, ...]
    medians: np.ndarray
    lookups: tuple[Lookup, ...]
    imputations: tuple[Imputation, ...] = ()

    @classmethod
    def learn(
        cls,
        codes: np.ndarray,
        coded: Sequence[Coded],
        y: Any = None,
        /,
        *,
        n_classes: int = 0,
        impute: str = "median",
        weights: np.ndarray | None = None,
        random_state: int = 0,
        blocks: np.ndarray | None = None,
    ) -> tuple[Self, np.ndarray]:
        """Learn the encoding from rows, and encode them.

        Parameters
        ----------
        codes : array, shape (n, c)
            Codes from `Table.codes`.
        coded : sequence of Coded
            `Table.coded`.
        y : array, shape (n,) or (n, t), optional
            Targets, or classes 0, ..., n_classes - 1. Without targets, columns of many levels are
            encoded by the frequencies of the levels alone.
        n_classes : int, default=0
            Number of classes, including classes that these rows lack; 0 for targets that are
            numbers.
        impute : {"median", "model"}, default="median"
            Replacement of missing numbers: the median of the column, or the prediction of kernel
            ridge regression from the other columns.
        weights : array, shape (n,), optional
            Weights of the rows. Medians ignore them.
        random_state : int, default=0
            Seed of the folds of the cross-fit, and of the rows for models of missing numbers.
        blocks : array of int, shape (n,), optional
            Folds 0, 1, ... of the cross-fit, instead of random folds.

        Returns
        -------
        encoding : Encoding
            The encoding for new rows.
        encoded : array, shape (n, d)
            These rows, encoded. Their target means come from other rows, so they differ from those
            of `transform`.

        Raises
        ------
        ValueError
            If there are no rows, or the arrays do not fit each other.
        """
        _check_columns(codes, coded)
        return cls.learn_columns(
            codes.T,
            coded,
            y,
            n=len(codes),
            n_classes=n_classes,
            impute=impute,
            weights=weights,
            random_state=random_state,
            blocks=blocks,
        )

    @classmethod
    def learn_columns(
        cls,
        columns: Iterable[np.ndarray],
        coded: Sequence[Coded],
        y: Any = None,
        /,
        *,
        n: int,
        n_classes: int = 0,
        impute: str = "median",
        weights: np.ndarray | None = None,
        random_state: int = 0,
        blocks: np.ndarray | None = None,
        dtype: Any = np.float64,
    ) -> tuple[Self, np.ndarray]:
        """Learn as `learn` does, from codes that come column by column.

        Memory holds one column of codes at a time, beside the encoded rows.

        Parameters
        ----------
        columns : iterable of arrays, shape (n,)
            Columns from `Table.code_columns`.
        coded, y, n_classes, impute, weights, random_state, blocks
            As for `learn`.
        n : int
            Number of rows.
        dtype : dtype, default=numpy.float64
            Type of the encoded rows.

        Returns
        -------
        encoding : Encoding
            The encoding for new rows.
        encoded : array, shape (n, d)
            These rows, encoded.

        Raises
        ------
        ValueError
            If there are no rows, more or fewer columns, or the arrays do not fit each other.
        """
        check_choice("impute", impute, IMPUTE)
        Y = _target_matrix(y, n_classes, n)
        t = 0 if Y is None else Y.shape[1]
        places = output_columns(coded, [lookup_width(one, t) for one in coded if one.levels])
        encoded = np.empty((n, sum(map(len, places))), dtype=dtype)
        known: list[float | Lookup] = []
        gappy: dict[int, np.ndarray] = {}
        for j, codes, one in iterate_columns(columns, coded):
            own = None
            if one.levels:
                learned, own = learn_lookup(codes, one, Y, weights, random_state, blocks)
                known.append(learned)
            else:
                known.append(_median(codes, one))
                if encoded.dtype == np.float32:
                    _warn_rounding(codes, one)
            if one.gaps and not one.levels and impute == "model":
                gappy[j] = codes
            _write_encoding(encoded, places[j], codes, one, known[j], own)
            del codes, own  # before the next are made
        lookups = tuple(one for one in known if isinstance(one, Lookup))
        medians = [0.0 if isinstance(one, Lookup) else one for one in known]
        encoding = cls(tuple(coded), np.array(medians), lookups)
        if impute == "model":
            encoding = encoding._learn_imputations(gappy, encoded, weights, random_state)
            encoding._impute(gappy, encoded)
        return encoding, encoded

    def transform(self, codes: Array, /) -> Any:
        """Encode codes (n, c) as finite numbers (n, d), in float64.

        Traced arrays, which only record operations, record the complete encoding.

        Raises
        ------
        ValueError
            If there are more or fewer columns.
        """
        _check_columns(codes, self.coded)
        if not is_host(codes):
            return self._encode_symbolically(codes)
        encoded = np.empty((len(codes), self.n_features))
        for start in range(0, len(codes), _BLOCK_ROWS):  # to limit memory
            rows, at = slice(start, start + _BLOCK_ROWS), 0
            for block in self._blocks(codes[rows]):
                encoded[rows, at : at + block.shape[1]] = block
                at += block.shape[1]
        self._impute(codes.T, encoded)
        return encoded

    def _encode_symbolically(self, codes: Array) -> Array:
        """Encode traced arrays, by all steps for all rows."""
        xp = array_namespace(codes)
        encoded = xp.concat(list(self._blocks(codes)), axis=1)
        encoded = xp.reshape(encoded, (-1, self.n_features))  # tracing loses the width
        if not self.imputations:
            return encoded
        columns = [encoded[:, k : k + 1] for k in range(self.n_features)]
        for one in self.imputations:
            gaps = xp.isnan(codes[:, one.column : one.column + 1])
            place = self._groups.numbers.index(one.column)
            columns[place] = xp.where(gaps, one.predict_symbolically(encoded), columns[place])
        return xp.reshape(xp.concat(columns, axis=1), (-1, self.n_features))

    def transform_columns(
        self, columns: Iterable[np.ndarray], n: int, dtype: Any = np.float64, /
    ) -> np.ndarray:
        """Encode as `transform` does, from codes that come column by column.

        Parameters
        ----------
        columns : iterable of arrays, shape (n,)
            Columns from `Table.code_columns`.
        n : int
            Number of rows.
        dtype : dtype, default=numpy.float64
            Type of the result.

        Returns
        -------
        array, shape (n, d)
            Finite numbers.

        Raises
        ------
        ValueError
            If there are more or fewer columns.
        """
        encoded, lookups, gappy = np.empty((n, self.n_features), dtype), iter(self.lookups), {}
        imputed = {one.column for one in self.imputations}
        places = output_columns(self.coded, [len(lookup.names) for lookup in self.lookups])
        for j, codes, one in iterate_columns(columns, self.coded):
            known = next(lookups) if one.levels else float(self.medians[j])
            _write_encoding(encoded, places[j], codes, one, known)
            if j in imputed:
                gappy[j] = codes
            del codes  # before the next are made
        self._impute(gappy, encoded)
        return encoded

    def _blocks(self, codes: Array) -> Iterator[Array]:
        """Yield the encoded columns of each kind, with medians for missing numbers."""
        xp, groups = array_namespace(codes), self._groups
        if groups.numbers:
            X = select_columns(codes, groups.numbers)
            yield xp.where(xp.isnan(X), asarray_like(self.medians[groups.numbers], codes), X)
        if groups.cyclic:
            angles = select_columns(codes, groups.cyclic) * asarray_like(self._radians, codes)
            for wave in waves(angles):
                yield xp.where(xp.isnan(angles), asarray_like(np.zeros(()), codes), wave)
        if groups.gaps:
            yield xp.astype(xp.isnan(select_columns(codes, groups.gaps)), codes.dtype)
        for j, lookup in zip(groups.levels, self.lookups, strict=True):
            yield lookup(codes[:, j])

    def _learn_imputations(
        self,
        codes: Mapping[int, np.ndarray],
        encoded: np.ndarray,
        weights: np.ndarray | None,
        random_state: int,
    ) -> Self:
        """Learn the imputation of numeric columns with missing values."""
        rng, learned = np.random.default_rng(random_state), []
        for j in self._groups.gaps:
            source = self.coded[j].source
            others = [
                k
                for k, one in enumerate(self.outputs)
                if self.coded[one.column].source != source and not one.has_targets
            ]
            learned.append(learn_imputation(j, codes[j], encoded, others, weights, rng))
        return replace(self, imputations=tuple(one for one in learned if one is not None))

    def _impute(self, codes: Mapping[int, np.ndarray] | np.ndarray, encoded: np.ndarray) -> None:
        """Write imputed values into encoded rows; the models' inputs have medians."""
        imputed = []
        for one in self.imputations:
            rows = np.flatnonzero(np.isnan(codes[one.column]))
            if len(rows):
                imputed.append((rows, self._groups.numbers.index(one.column), one(encoded[rows])))
        for rows, place, values in imputed:
            encoded[rows, place] = values

    @cached_property
    def _groups(self) -> Groups:
        return group_by_kind(self.coded)

    @cached_property
    def _radians(self) -> np.ndarray:
        """The radians per unit of each cyclic number."""
        return 2.0 * np.pi / np.array([self.coded[j].period for j in self._groups.cyclic])

    @cached_property
    def outputs(self) -> tuple[Output, ...]:
        """The description of each encoded column."""
        groups, name = self._groups, [one.name for one in self.coded]
        found = [Output(name[j], j, False, False) for j in groups.numbers]
        for wave in ("sine", "cosine"):
            found += [Output(f"{name[j]} {wave}", j, True, False) for j in groups.cyclic]
        found += [Output(f"{name[j]} missing", j, True, False) for j in groups.gaps]
        for j, lookup in zip(groups.levels, self.lookups, strict=True):
            weighed = lookup.weighed
            found += [Output(f"{name[j]}{one}", j, weighed, not weighed) for one in lookup.names]
        return tuple(found)

    @property
    def number_places(self) -> dict[int, int]:
        """The encoded column of each column of codes that is a plain number."""
        return {column: place for place, column in enumerate(self._groups.numbers)}

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the encoded columns; duplicates have a number in brackets."""
        names, taken = list[str](), Counter[str]()
        for one in self.outputs:
            taken[one.name] += 1
            again = taken[one.name]
            names.append(one.name if again == 1 else f"{one.name} ({again})")
        return tuple(names)

    @property
    def sources(self) -> tuple[int, ...]:
        """The table's column of each encoded column."""
        return tuple(self.coded[one.column].source for one in self.outputs)

    @property
    def weighed(self) -> tuple[bool, ...]:
        """For each encoded column, whether it keeps its scale.

        The columns of one category together weigh as much as a number of unit variance. The same
        holds for a sine with its cosine.
        """
        return tuple(one.weighed for one in self.outputs)

    @property
    def n_features(self) -> int:
        """The number of encoded columns."""
        return len(self.outputs)


def _check_columns(codes: Array, coded: Sequence[Coded]) -> None:
    if codes.ndim != 2 or codes.shape[1] != len(coded):
        msg = f"expected codes (n, {len(coded)}), got shape {codes.shape}"
        raise ValueError(msg)


def _target_matrix(y: Any, n_classes: int, n: int) -> np.ndarray | None:
    """Return targets (n, t) in float64, or indicators of the classes."""
    if not n:
        msg = "expected rows to learn from, got none"
        raise ValueError(msg)
    if y is None:
        return None
    Y = np.asarray(y, dtype=np.float64)
    finite = np.isfinite(Y).all(axis=tuple(range(1, Y.ndim)))
    if len(Y) != n or not finite.all():
        count = np.count_nonzero(~finite)
        bad = f", {count} of them NaN or infinite" if count else ""
        msg = f"expected finite targets of {n} rows, got {len(Y)}{bad}"
        raise ValueError(msg)
    if n_classes:
        classes = np.arange(n_classes) if n_classes > 2 else np.ones(1)
        return (Y.reshape(-1, 1) == classes).astype(np.float64)
    return Y.reshape(n, -1)


def _median(codes: np.ndarray, coded: Coded) -> float:
    """Return the median of numbers, as `SimpleImputer` computes it."""
    kept = codes[~np.isnan(codes)]
    if not len(kept) or coded.period:
        return 0.0
    return float(np.median(kept, overwrite_input=True))  # `kept` is a copy


def _warn_rounding(codes: np.ndarray, coded: Coded) -> None:
    """Warn of numbers (n,) whose differences float32 would round."""
    low, high = np.fmin.reduce(codes), np.fmax.reduce(codes)
    step = max(-low, high) * np.finfo(np.float32).eps
    if not coded.period and step > _MAX_ROUNDING * (high - low) > 0:
        msg = f"column {coded.name!r}: numbers from {low:.9g} to {high:.9g} become multiples of"
        warn(f"{msg} {step:.1g} in float32; dtype=numpy.float64 keeps them")


def _write_encoding(
    encoded: np.ndarray,
    places: list[int],
    codes: np.ndarray,
    coded: Coded,
    known: float | Lookup,
    own: np.ndarray | None = None,
) -> None:
    """Write the encoding of codes (n,), with cross-fitted means (n, t) for training rows."""
    for start in range(0, len(codes), _BLOCK_ROWS):
        rows = slice(start, start + _BLOCK_ROWS)
        made = _encode_column(codes[rows], coded, known)
        if own is not None:  # the first column is the frequency
            made[:, 1:] = own[rows]
        encoded[rows, places] = made


def _encode_column(codes: np.ndarray, coded: Coded, known: float | Lookup) -> np.ndarray:
    """Encode codes (n,) as numbers (n, width), by lookup or median."""
    if isinstance(known, Lookup):
        return known(codes)
    gaps = np.isnan(codes)
    if coded.period:
        angles = np.where(gaps, 0.0, codes * (2.0 * np.pi / coded.period))
        sine, cosine = waves(angles)
        return np.column_stack([sine, np.where(gaps, 0.0, cosine)])
    filled = np.where(gaps, known, codes)
    return np.column_stack([filled, gaps]) if coded.gaps else filled[:, None]
