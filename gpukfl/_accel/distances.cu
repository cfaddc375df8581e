// Distances and sums of signs between two sets of points: the kernels behind
// gpukfl._accel.cuda_distances.
//
// Compiled by NVRTC, so nothing is included. Every parameter is a pointer or a long long, so that
// a host emulation can call any kernel through one type. A block has a tile of the output and
// SIDE * SIDE threads; what it reads is staged in shared memory, DEPTH columns at a time, as
// double: that converts each number once, and differences of floats are then exact. Where double
// is slow, sums of floats are kept as pairs of floats instead. Sums run in a fixed order: results
// repeat to the last bit.

#ifndef SIDE
#define SIDE 16  // threads along a side of a tile
#endif
#ifndef EACH
#define EACH 4  // outputs of a thread along a side
#endif
#ifndef DEPTH
#define DEPTH 16  // columns staged at once
#endif

constexpr int TILE = SIDE * EACH;
constexpr int STRIDE = TILE + 1;  // odd, to keep threads off each other's banks

// Tile [column * STRIDE + row] of a matrix with entry (i, j) at i * down + j * along, from
// (top, left) to (n, stop); zeros beyond. Neighbouring threads read neighbouring memory.
template <class T, class Number>
__device__ void stage(const T *matrix, long long down, long long along, long long top, long long n,
                      long long left, long long stop, Number *tile) {
    for (int k = static_cast<int>(threadIdx.x); k < TILE * DEPTH; k += SIDE * SIDE) {
        const int row = down == 1 ? k % TILE : k / DEPTH;
        const int column = down == 1 ? k / TILE : k % DEPTH;
        const bool inside = top + row < n && left + column < stop;
        const long long at = (top + row) * down + (left + column) * along;
        tile[column * STRIDE + row] = inside ? static_cast<Number>(matrix[at]) : Number(0);
    }
}

// A number as the sum of two floats, of which the second is less than an ulp of the first: 48 bits.
// No product is part of it, so that none can be fused with a sum and change what it rounds to.
struct Pair {
    float high, low;
    // Exact: what rounding takes from a + b is a float itself (Knuth).
    __device__ static Pair of_sum(float a, float b) {
        const float sum = a + b, part = sum - a;
        return {sum, (a - (sum - part)) + (b - part)};
    }
    __device__ void add(float number, float rest) {
        const Pair sum = of_sum(high, number);
        high = sum.high;
        low += sum.low + rest;
    }
    // Beyond the largest float, what rounding has taken is not a number.
    __device__ double value() const {
        return isinf(high) ? high : static_cast<double>(high) + static_cast<double>(low);
    }
};

// ------------------------------------------------------------------------------------------------
// Distances

struct Euclidean {
    using Number = double;  // as what is staged
    double total = 0.0;
    __device__ void add(double a, double b) { total += (a - b) * (a - b); }
    __device__ double value() const { return sqrt(total); }
};

struct Manhattan {
    using Number = double;
    double total = 0.0;
    __device__ void add(double a, double b) { total += fabs(a - b); }
    __device__ double value() const { return total; }
};

// Of squares there is none: those of small and of large floats are beyond their range.
struct ManhattanPairs {
    using Number = float;
    Pair total = {0.0f, 0.0f};
    __device__ void add(float a, float b) {
        const Pair gap = Pair::of_sum(a, -b);
        const bool negative = gap.high < 0.0f;
        total.add(negative ? -gap.high : gap.high, negative ? -gap.low : gap.low);
    }
    __device__ double value() const { return total.value(); }
};

// x (n, d), z (q, d), out (n, q); a block for each TILE * TILE of out, along its rows first.
template <class Norm, class T>
__device__ void distances(const T *x, const T *z, long long n, long long q, long long d, T *out) {
    using Number = typename Norm::Number;
    __shared__ Number xs[DEPTH * STRIDE];
    __shared__ Number zs[DEPTH * STRIDE];
    const long long across = (q + TILE - 1) / TILE;
    const long long top = blockIdx.x / across * TILE;
    const long long left = blockIdx.x % across * TILE;
    const int row = static_cast<int>(threadIdx.x) / SIDE;
    const int column = static_cast<int>(threadIdx.x) % SIDE;
    Norm totals[EACH][EACH];
    for (long long first = 0; first < d; first += DEPTH) {
        stage(x, d, 1, top, n, first, d, xs);
        stage(z, d, 1, left, q, first, d, zs);
        __syncthreads();
        const int depth = d - first < DEPTH ? static_cast<int>(d - first) : DEPTH;
        for (int k = 0; k < depth; ++k) {
            for (int i = 0; i < EACH; ++i) {
                const Number here = xs[k * STRIDE + row + i * SIDE];
                for (int j = 0; j < EACH; ++j) {
                    totals[i][j].add(here, zs[k * STRIDE + column + j * SIDE]);
                }
            }
        }
        __syncthreads();  // before the next columns are staged
    }
    for (int i = 0; i < EACH; ++i) {
        for (int j = 0; j < EACH; ++j) {
            const long long a = top + row + i * SIDE, b = left + column + j * SIDE;
            if (a < n && b < q) {
                out[a * q + b] = static_cast<T>(totals[i][j].value());
            }
        }
    }
}

// ------------------------------------------------------------------------------------------------
// Sums of signs

struct Sum {
    using Number = double;
    double total = 0.0;
    __device__ void add(double number) { total += number; }
    __device__ double value() const { return total; }
};

struct SumPairs {
    using Number = float;
    Pair total = {0.0f, 0.0f};
    __device__ void add(float number) { total.add(number, 0.0f); }
    __device__ double value() const { return total.value(); }
};

// Weights (n, q) with entry (i, j) at i * down + j * along, x (n, d), z (q, d). Block (b, s) has
// TILE rows and SIDE features of the sums over the slice s of the rows of z, `each` long; these
// go to out (slices, n, d).
template <class Total, class T>
__device__ void sign_sums(const T *weights, long long down, long long along, const T *x, const T *z,
                          long long n, long long q, long long d, long long each, double *out) {
    using Number = typename Total::Number;
    __shared__ Number ws[DEPTH * STRIDE];
    __shared__ Number zs[DEPTH * SIDE];
    const long long across = (d + SIDE - 1) / SIDE;
    const long long top = blockIdx.x / across * TILE;
    const long long left = blockIdx.x % across * SIDE;
    const int row = static_cast<int>(threadIdx.x) / SIDE;
    const int column = static_cast<int>(threadIdx.x) % SIDE;
    const long long feature = left + column;
    Number here[EACH];
    Total totals[EACH];
    for (int i = 0; i < EACH; ++i) {
        const long long a = top + row + i * SIDE;
        here[i] = a < n && feature < d ? static_cast<Number>(x[a * d + feature]) : Number(0);
    }
    const long long stop = (blockIdx.y + 1) * each < q ? (blockIdx.y + 1) * each : q;
    for (long long first = blockIdx.y * each; first < stop; first += DEPTH) {
        stage(weights, down, along, top, n, first, stop, ws);
        for (int k = row; k < DEPTH; k += SIDE) {
            const bool inside = first + k < stop && feature < d;
            zs[k * SIDE + column] = inside ? static_cast<Number>(z[(first + k) * d + feature]) : Number(0);
        }
        __syncthreads();
        for (int k = 0; k < DEPTH; ++k) {  // beyond the end, weights are 0
            const Number there = zs[k * SIDE + column];
            for (int i = 0; i < EACH; ++i) {
                const Number w = ws[k * STRIDE + row + i * SIDE];
                totals[i].add(here[i] > there ? w : here[i] < there ? -w : Number(0));
            }
        }
        __syncthreads();
    }
    for (int i = 0; i < EACH; ++i) {
        const long long a = top + row + i * SIDE;
        if (a < n && feature < d) {
            out[(blockIdx.y * n + a) * d + feature] = totals[i].value();
        }
    }
}

// ------------------------------------------------------------------------------------------------
// The templates under names that the host can look up.

#define KERNELS(T, t)                                                                            \
    extern "C" __global__ void euclidean_##t(const T *x, const T *z, long long n, long long q,   \
                                             long long d, T *out) {                              \
        distances<Euclidean>(x, z, n, q, d, out);                                                \
    }                                                                                            \
    extern "C" __global__ void manhattan_##t(const T *x, const T *z, long long n, long long q,   \
                                             long long d, T *out) {                              \
        distances<Manhattan>(x, z, n, q, d, out);                                                \
    }                                                                                            \
    extern "C" __global__ void sign_sums_##t(                                                    \
        const T *weights, long long down, long long along, const T *x, const T *z, long long n,  \
        long long q, long long d, long long each, double *out) {                                 \
        sign_sums<Sum>(weights, down, along, x, z, n, q, d, each, out);                          \
    }

extern "C" __global__ void manhattan_pairs_float32(const float *x, const float *z, long long n,
                                                   long long q, long long d, float *out) {
    distances<ManhattanPairs>(x, z, n, q, d, out);
}
extern "C" __global__ void sign_sums_pairs_float32(const float *weights, long long down,
                                                   long long along, const float *x, const float *z,
                                                   long long n, long long q, long long d,
                                                   long long each, double *out) {
    sign_sums<SumPairs>(weights, down, along, x, z, n, q, d, each, out);
}
KERNELS(float, float32)
KERNELS(double, float64)
