"""Mistakes to plant in CUDA sources; orders of threads, guard pages and poison are to show them.

Those that cannot be seen, because they change no result, say so. On 23 November 2026 all 133 were
caught.
"""

from __future__ import annotations

from planted import Mutant

# What is missed because it changes no result, and why
EQUIVALENT: dict[str, str] = {}

BITS = "tests/cupy_standin/test_bits.py"
# Those of `BITS` that run kernels of a file; all without a row
WITH: dict[str, tuple[str, ...]] = {
    "distances.cu": ("distances",),
    "differences.cu": (
        "differences",
        "a_slice_of_differences_has_several_tiles",
        "factored_differences",
        "features_beyond_the_grid_are_looped_over",
    ),
    "hermite.cu": ("hermite_polynomials", "products_of_rows"),
    "knots.cu": ("lines_between_knots",),
    "vectors.cu": (
        "steps",
        "columns",
        "records",
        "the_largest_of_columns_may_be_nan",
        "the_threads_of_a_small_grid_loop_on",
        "a_solved_column_stays_where_it_is",
        "a_column_that_is_not_finite_sums_to_nan",
        "bins",
    ),
}


def _planted(file: str, *mistakes: tuple[str, str, str]) -> list[Mutant]:
    tests = [f"{BITS}::test_{name}" for name in WITH[file]] if file in WITH else [BITS]
    run = " ".join(["--cupy-standin", *tests])
    return [Mutant(what, f"_accel/{file}", old, new, run) for what, old, new in mistakes]


_BROWNIAN = _planted(
    "brownian.cu",
    ("order one off", "rank[start + i] = static_cast<int>(k);", "rank[start + i] = static_cast<int>(k + 1);"),
    ("order of the row before", "for (long long start = blockIdx.y * n; start", "for (long long start = 0; start"),
    ("ridge without gaps", "level + next.level - sum * next.length", "level + next.level - sum"),
    ("ridge with the wrong sum", "level + next.level - sum * next.length", "level + next.level - next.sum * next.length"),
    ("lengths are not added", "return {sum + next.sum, length + next.length,", "return {sum + next.sum, next.length,"),
    ("no barrier after the first write", "    scratch[me] = joined;\n    __syncthreads();\n    for", "    scratch[me] = joined;\n    for"),
    ("no barrier after reading below", "        __syncthreads();\n        joined = below.then(joined);", "        joined = below.then(joined);"),
    ("no barrier after joining", "        scratch[me] = joined;\n        __syncthreads();\n    }\n    return", "        scratch[me] = joined;\n    }\n    return"),
    ("joined in the wrong order", "joined = below.then(joined);", "joined = joined.then(below);"),
    ("half of the block is not joined", "for (int step = 1; step < THREADS; step *= 2)", "for (int step = 1; step < THREADS / 2; step *= 2)"),
    ("a thread counts itself below", "return me > 0 ? scratch[me - 1]", "return me > 0 ? scratch[me]"),
    ("no barrier after staging", "            }\n        }\n        __syncthreads();\n    }\n\n    __device__ State element", "            }\n        }\n    }\n\n    __device__ State element"),
    ("read one beyond the end", "const bool inside = at < n;", "const bool inside = at <= n;"),
    ("weight of the element in its place", "static_cast<double>(v[order[row * n + at]])", "static_cast<double>(v[at])"),
    ("gap before the first element", "inside && at > 0\n", "inside && at >= 0\n"),
    ("no barrier before storing", "mass[slot(static_cast<int>(threadIdx.x) * ITEMS + k)] = state.level;\n        }\n        __syncthreads();", "mass[slot(static_cast<int>(threadIdx.x) * ITEMS + k)] = state.level;\n        }"),
    ("write one beyond the end", "k < CHUNK && first + k < n;", "k < CHUNK && first + k <= n;"),
    ("state of all but the last thread", "states[blockIdx.x] = below.then(mine);", "states[blockIdx.x] = below;"),
    ("carry of the chunk itself", "        row[k] = before;\n        before = before.then(here);", "        before = before.then(here);\n        row[k] = before;"),
    ("chunks beyond the first of a thread", "const long long stop = first + share < chunks ? first + share : chunks;", "const long long stop = first + 1 < chunks ? first + 1 : chunks;"),
    ("levels without the carry", "chunk.replace_by_levels(states[blockIdx.x].then(below));", "chunk.replace_by_levels(below);"),
    ("level of the position, not the rank", "total += levels[j * n + rank[j * n + i]];", "total += levels[j * n + i];"),
    ("levels of the last rows only", "double total = added != 0 ? out[i * stride] : 0.0;", "double total = 0.0;"),
    ("levels on top of what was there", "double total = added != 0 ? out[i * stride] : 0.0;", "double total = out[i * stride];"),
    ("first of the ties is found strictly", "        if (row[middle] < value) {\n            low", "        if (row[middle] <= value) {\n            low"),
    ("ties are not looked up below", "if (k == 0 || row[k - 1] != value)", "if (true)"),
    ("ties are not looked up above", "if (k + 1 == n || row[k + 1] != value)", "if (true)"),
    ("last of the ties reads beyond the end", "if (k + 1 == n || row[k + 1] != value)", "if (row[k + 1] != value)"),
    ("signs without those above", "(below - above)", "below"),
    ("mass up to the first of the ties", "upto[first - 1]", "upto[first]"),
    ("share rounded to the nearest", "static_cast<int>(floor(inside * unit))", "static_cast<int>(rint(inside * unit))"),
    ("codes before the first knot", "at >= 0.0 ? (at < last ? at : last) : 0.0;", "at < last ? at : last;"),
    ("codes beyond the last knot", "at >= 0.0 ? (at < last ? at : last) : 0.0;", "at >= 0.0 ? at : 0.0;"),
    ("fixed point with a bit too many", "const int half = (62 -", "const int half = (66 -"),
    ("fixed point with few bits", "const int half = (62 -", "const int half = (40 -"),
    ("sums begin with what was there", "        sums[k] = 0;\n", ""),
    ("the largest of the first slice", "for (long long s = 0; s < slices; ++s) {\n            const double part", "for (long long s = 0; s < 1; ++s) {\n            const double part"),
    ("a gap before the first knot", "return Ridge::of(sum / roots[c] / roots[c], k > 0 ? gap[j] : 0.0);", "return Ridge::of(sum / roots[c] / roots[c], gap[0]);"),
    ("levels of the wrong column", "const long long j = blockIdx.x / t, c = blockIdx.x % t;", "const long long j = blockIdx.x / t, c = 0;"),
    ("knots beyond the first of a thread", "const long long stop = first + share < n_knots ? first + share : n_knots;", "const long long stop = first + 1 < n_knots ? first + 1 : n_knots;"),
    ("levels of all particles", "state.level / static_cast<double>(particles)", "state.level"),
    ("infinite columns pass", "isfinite(largest) ? ldexp(1.0, half) : largest - largest;", "ldexp(1.0, half);"),
    ("carry lost", "const unsigned int carry = before + lower < before ? 1u : 0u;", "const unsigned int carry = 0u;"),
    ("share moved in the wrong direction", "bins.add(cell, whole - moved);", "bins.add(cell, moved);"),
    ("last knot moves on", "if (moved != 0 && cell + 1 < n_knots)", "if (moved != 0)"),
    ("half of the bins cleared", "k < 2 * n_knots; k += blockDim.x", "k < n_knots; k += blockDim.x"),
    ("no barrier before the bins are used", "        halves[k] = 0;\n    }\n    __syncthreads();", "        halves[k] = 0;\n    }"),
    ("no barrier before the bins are handed over", "first, stop, n_knots);\n    __syncthreads();", "first, stop, n_knots);"),
    ("slices overlap", "    const long long row = blockIdx.x / slices;\n    const long long first = blockIdx.x % slices * each;\n    const long long stop = first + each < n ? first + each : n;\n    const GlobalBins", "    const long long row = blockIdx.x / slices;\n    const long long first = blockIdx.x % slices * each;\n    const long long stop = n;\n    const GlobalBins"),
    ("totals scaled once", "static_cast<double>(sum) / roots[c] / roots[c];", "static_cast<double>(sum) / roots[c];"),
    ("pairs of a row with itself only", "    k += j;\n", "    k = j;\n"),
    ("no barrier before pairs are added", "        shares[i] = 0;\n    }\n    __syncthreads();", "        shares[i] = 0;\n    }"),
    ("pairs beyond the tile", "share != 0 && at >= 0 && at < height", "share != 0 && at >= 0"),
    ("pairs on one side of the diagonal", "if (j != k && k < rows)", "if (false)"),
    ("right knot beyond the last", "cell + 1 < n_knots ? at[(cell + 1) * t] : left", "at[(cell + 1) * t]"),
    ("interpolation from the right", "return left + decode.share(code) * (right - left);", "return right + decode.share(code) * (right - left);"),
)  # fmt: skip

_DISTANCES = _planted(
    "distances.cu",
    ("no barrier after staging", "        stage(z, d, 1, left, q, first, d, zs);\n        __syncthreads();", "        stage(z, d, 1, left, q, first, d, zs);"),
    ("no barrier before the next columns", "        __syncthreads();  // before the next columns are staged\n", ""),
    ("staging reads beyond the rows", "const bool inside = top + row < n && left + column < stop;", "const bool inside = left + column < stop;"),
    ("staging reads beyond the columns", "const bool inside = top + row < n && left + column < stop;", "const bool inside = top + row < n;"),
    ("all columns of a stage count", "const int depth = d - first < DEPTH ? static_cast<int>(d - first) : DEPTH;", "const int depth = DEPTH - 1;"),
    ("writing beyond the last row", "            if (a < n && b < q) {", "            if (b < q) {"),
    ("squares are not rooted", "return sqrt(total);", "return total;"),
    ("differences keep their signs", "total += fabs(a - b);", "total += a - b;"),
    ("pairs lose what rounding takes", "low += sum.low + rest;", "low += 0.0f * (sum.low + rest);"),
    ("pairs keep the signs of differences", "const bool negative = gap.high < 0.0f;", "const bool negative = false;"),
    ("no sign of zero", "here[i] > there ? w : here[i] < there ? -w : Number(0)", "here[i] > there ? w : -w"),
    ("slices of the signs overlap", "(blockIdx.y + 1) * each < q ? (blockIdx.y + 1) * each : q;", "q;"),
    ("no barrier after staging signs", "z[(first + k) * d + feature]) : Number(0);\n        }\n        __syncthreads();", "z[(first + k) * d + feature]) : Number(0);\n        }"),
    ("sums of a slice go to the first", "out[(blockIdx.y * n + a) * d + feature] = totals[i].value();", "out[a * d + feature] = totals[i].value();"),
)  # fmt: skip

_DIFFERENCES = _planted(
    "differences.cu",
    ("diagonal and below are read", "const bool read = row < column && column < stop;", "const bool read = column < stop;"),
    ("weights beyond the last column", "const bool read = row < column && column < stop;", "const bool read = row < column;"),
    ("points beyond the last row", "const bool read = row < stop && feature < p;", "const bool read = feature < p;"),
    ("points beyond the last feature", "const bool read = row < stop && feature < p;", "const bool read = row < stop;"),
    ("no barrier before threads are added", "        sums[row * TILE + column + j * SIDE] = totals[j];\n    }\n    __syncthreads();", "        sums[row * TILE + column + j * SIDE] = totals[j];\n    }"),
    ("half of the threads are added", "for (int i = 0; i < SIDE; ++i) {\n            total", "for (int i = 0; i < SIDE / 2; ++i) {\n            total"),
    ("features beyond the last are written", "        if (left + k < p) {\n            out[left + k]", "        if (true) {\n            out[left + k]"),
    ("tiles of a row are not left out", "        along -= tiles - down;", "        along -= tiles;"),
    ("no barrier after staging", "            stage_points(x, p, first, end, left, zs);\n            __syncthreads();", "            stage_points(x, p, first, end, left, zs);"),
    ("no barrier before the next columns", "            __syncthreads();  // before the next columns are staged\n", ""),
    ("differences keep their signs", "parts[j] += w * fabs(here[i][j] - there[j]);", "parts[j] += w * (here[i][j] - there[j]);"),
    ("parts of a tile are lost", "            totals[j] += parts[j];", "            totals[j] = parts[j];"),
    ("threads beyond the last chunk", "    if (chunk >= chunks) {\n        return;\n    }\n", ""),
    ("features do not loop on", "feature < p; feature += gridDim.y", "feature < p; feature += p"),
    ("the last chunk runs over", "const long long stop = first + each < n ? first + each : n;\n    for (long long feature", "const long long stop = first + each;\n    for (long long feature"),
    ("gaps of the feature before", "gaps + feature * (n - 1);", "gaps + feature * n;"),
    ("a gap behind the last sample", "i < n - 1 ? static_cast<double>(after[i]) : 0.0;", "static_cast<double>(after[i]);"),
    ("samples in their own order", "v[samples[i] * m + column]", "v[i * m + column]"),
    ("squares of gaps", "square += gap * sum * sum;", "square += gap * gap * sum;"),
    ("chunks begin with nothing before", "            before += chunk[0];\n", ""),
    ("what is behind a chunk counts once", "(all - 2.0 * before) * chunk[2 * m];", "(all - before) * chunk[2 * m];"),
    ("only the first columns", "for (long long column = threadIdx.x; column < m; column += SIDE * SIDE) {\n        double all", "for (long long column = threadIdx.x; column < m && column < 64; column += SIDE * SIDE) {\n        double all"),
    ("no barrier before columns are added", "    sums[threadIdx.x] = total;\n    __syncthreads();", "    sums[threadIdx.x] = total;"),
    ("half of the columns", "for (int k = 0; k < SIDE * SIDE; ++k) {\n            sum +=", "for (int k = 0; k < SIDE * SIDE / 4; ++k) {\n            sum +="),
    ("sums count once", "out[blockIdx.x] = 2.0 * sum;", "out[blockIdx.x] = sum;"),
)  # fmt: skip

_KNOTS = _planted(
    "knots.cu",
    ("threads of lines do not loop on", "k < n * t; k += step", "k < n * t; k += n * t"),
    ("lines beyond the last point", "for (; k < n * t; k += step)", "for (; k < n * t + 1; k += step)"),
    ("points of the first function", "a[j * n + k / t]", "a[k / t]"),
    ("knots of the first function", "knots + j * q;", "knots;"),
    ("a knot belongs to the line before", "if (mine[middle] <= x)", "if (mine[middle] < x)"),
    ("values of the first target", "values + (j * q + low) * t + k % t;", "values + (j * q + low) * t;"),
    ("lines go on beyond the last knot", "if (low < q - 1 && x > mine[low])", "if (x > mine[low])"),
    ("lines go on before the first knot", "if (low < q - 1 && x > mine[low])", "if (low < q - 1)"),
    ("the value beside", "(line[t] - found)", "(line[1] - found)"),
    ("the last function alone", "            total += found;", "            total = found;"),
)  # fmt: skip

_VECTORS = _planted(
    "vectors.cu",
    ("a solved column moves", "return den == 0.0 ? num * 0.0 : num / den;", "return num / den;"),
    ("threads do not loop on", "k < size; k += element_step()) {\n        const T step", "k < size; k += size) {\n        const T step"),
    ("steps of the first column", "const T step = static_cast<T>(ratio(rz[k % t], curvature[k % t]));", "const T step = static_cast<T>(ratio(rz[0], curvature[0]));"),
    ("the residual grows", "new_r[k] = r[k] - step * Ap[k];", "new_r[k] = r[k] + step * Ap[k];"),
    ("the residual goes with the direction", "new_r[k] = r[k] - step * Ap[k];", "new_r[k] = r[k] - step * p[k];"),
    ("directions restart", "new_p[k] = z[k] + static_cast<T>(ratio(rz[k % t], rz_old[k % t])) * p[k];", "new_p[k] = z[k];"),
    ("directions by the wrong ratio", "ratio(rz[k % t], rz_old[k % t])", "ratio(rz_old[k % t], rz[k % t])"),
    ("means of all elements", "const long long rows = size / t;", "const long long rows = size;"),
    ("slices count as rows", "total / static_cast<double>(rows);", "total / static_cast<double>(slices);"),
    ("the worst curvature is the last", "is_worse && worst[c] == worst[c] ? curvature[c] : worst[c];", "curvature[c];"),
    ("NaN is forgotten", "return a >= b || a != a ? a : b;", "return a >= b ? a : b;"),
    ("no barrier before joining lanes", "    scratch[me] = mine;\n    __syncthreads();", "    scratch[me] = mine;"),
    ("no barrier between halves of lanes", "scratch[me + step * columns]);\n        }\n        __syncthreads();", "scratch[me + step * columns]);\n        }"),
    ("lanes beyond the columns join", "if (lane < step && lane + step < lanes)", "if (lane < step)"),
    ("half of the lanes", "for (int step = THREADS / 2; step > 0", "for (int step = THREADS / 4; step > 0"),
    ("slices overlap", "const long long first = blockIdx.x * each;", "const long long first = 0;"),
    ("slices run into the next", "first + each < rows ? first + each : rows;", "rows;"),
    ("the others are not added", "is_more != 0 ? u[k] + more[k] : u[k];", "u[k];"),
    ("no shift", "shift == 0 ? centered : centered + shift * v[k];", "centered;"),
    ("mean of the first column", "static_cast<P>(means[k % t])", "static_cast<P>(means[0])"),
    ("records overlap", "out[2 * t + c] = third[c];", "out[t + c] = third[c];"),
)  # fmt: skip

_HERMITE = _planted(
    "hermite.cu",
    ("degrees from zero on", "for (long long j = 1; j <= degree; ++j)", "for (long long j = 1; j < degree; ++j)"),
    ("not of unit variance", "(x[k] * now - last) / sqrt(static_cast<double>(j));", "x[k] * now - last;"),
    ("the wrong root of the last", "sqrt(static_cast<double>(j - 1)) * before;", "sqrt(static_cast<double>(j)) * before;"),
    ("the last but one stays", "            before = now;\n", ""),
    ("degrees in the place of points", "out + k / d * (degree + 1) * d + k % d;", "out + k / d * d + k % d;"),
    ("threads of polynomials do not loop on", "k < size; k += step)", "k < size; k += size)"),
    ("polynomials beyond the last point", "k < size; k += step)", "k < size + 1; k += step)"),
    ("threads of products do not loop on", "k < m * n; k += step)", "k < m * n; k += m * n)"),
    ("products beyond the last", "k < m * n; k += step)", "k < m * n + 1; k += step)"),
    ("products in the place of columns", "j = k / n, i = k % n;", "j = k % m, i = k / m;"),
    ("the second factor is left out", "for (long long f = 1; f < most; ++f)", "for (long long f = 2; f < most; ++f)"),
    ("the last factor is left out", "for (long long f = 1; f < most; ++f)", "for (long long f = 1; f < most - 1; ++f)"),
    ("factors beyond their end", "            if (row < 0) {\n                break;\n            }\n", ""),
    ("products without their scale", "out[k] = product * scales[j];", "out[k] = product;"),
)  # fmt: skip

KERNELS = _BROWNIAN + _DISTANCES + _DIFFERENCES + _HERMITE + _KNOTS + _VECTORS
