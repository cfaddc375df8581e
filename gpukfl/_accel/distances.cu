// Distances and sums of signs between two sets of points: the kernels behind
// gpukfl._accel.cuda_distances.
//
// Compiled by NVRTC, so nothing is included. Every parameter is a pointer or a long long, so that
// a host emulation can call any kernel through one type. A block has a tile of the output and
// SIDE * SIDE threads; what it reads is staged in shared memory, DEPTH columns at a time, as
// double: that converts each number once, and differences of floats are then exact. Sums run in
// a fixed order: results repeat to the last bit.

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
template <class T>
__device__ void stage(const T *matrix, long long down, long long along, long long top, long long n,
                      long long left, long long stop, double *tile) {
    for (int k = static_cast<int>(threadIdx.x); k < TILE * DEPTH; k += SIDE * SIDE) {
        const int row = down == 1 ? k % TILE : k / DEPTH;
        const int column = down == 1 ? k / TILE : k % DEPTH;
        const bool inside = top + row < n && left + column < stop;
        const long long at = (top + row) * down + (left + column) * along;
        tile[column * STRIDE + row] = inside ? static_cast<double>(matrix[at]) : 0.0;
    }
}

// ------------------------------------------------------------------------------------------------
// Distances

struct Euclidean {
    __device__ static double term(double gap) { return gap * gap; }
    __device__ static double finish(double total) { return sqrt(total); }
};

struct Manhattan {
    __device__ static double term(double gap) { return fabs(gap); }
    __device__ static double finish(double total) { return total; }
};

// x (n, d), z (q, d), out (n, q); a block for each TILE * TILE of out, along its rows first.
template <class Norm, class T>
__device__ void distances(const T *x, const T *z, long long n, long long q, long long d, T *out) {
    __shared__ double xs[DEPTH * STRIDE];
    __shared__ double zs[DEPTH * STRIDE];
    const long long across = (q + TILE - 1) / TILE;
    const long long top = blockIdx.x / across * TILE;
    const long long left = blockIdx.x % across * TILE;
    const int row = static_cast<int>(threadIdx.x) / SIDE;
    const int column = static_cast<int>(threadIdx.x) % SIDE;
    double totals[EACH][EACH] = {};
    for (long long first = 0; first < d; first += DEPTH) {
        stage(x, d, 1, top, n, first, d, xs);
        stage(z, d, 1, left, q, first, d, zs);
        __syncthreads();
        const int depth = d - first < DEPTH ? static_cast<int>(d - first) : DEPTH;
        for (int k = 0; k < depth; ++k) {
            for (int i = 0; i < EACH; ++i) {
                const double here = xs[k * STRIDE + row + i * SIDE];
                for (int j = 0; j < EACH; ++j) {
                    totals[i][j] += Norm::term(here - zs[k * STRIDE + column + j * SIDE]);
                }
            }
        }
        __syncthreads();  // before the next columns are staged
    }
    for (int i = 0; i < EACH; ++i) {
        for (int j = 0; j < EACH; ++j) {
            const long long a = top + row + i * SIDE, b = left + column + j * SIDE;
            if (a < n && b < q) {
                out[a * q + b] = static_cast<T>(Norm::finish(totals[i][j]));
            }
        }
    }
}

// ------------------------------------------------------------------------------------------------
// Sums of signs

// Weights (n, q) with entry (i, j) at i * down + j * along, x (n, d), z (q, d). Block (b, s) has
// TILE rows and SIDE features of the sums over the slice s of the rows of z, `each` long; these
// go to out (slices, n, d).
template <class T>
__device__ void sign_sums(const T *weights, long long down, long long along, const T *x, const T *z,
                          long long n, long long q, long long d, long long each, double *out) {
    __shared__ double ws[DEPTH * STRIDE];
    __shared__ double zs[DEPTH * SIDE];
    const long long across = (d + SIDE - 1) / SIDE;
    const long long top = blockIdx.x / across * TILE;
    const long long left = blockIdx.x % across * SIDE;
    const int row = static_cast<int>(threadIdx.x) / SIDE;
    const int column = static_cast<int>(threadIdx.x) % SIDE;
    const long long feature = left + column;
    double here[EACH], totals[EACH];
    for (int i = 0; i < EACH; ++i) {
        const long long a = top + row + i * SIDE;
        here[i] = a < n && feature < d ? static_cast<double>(x[a * d + feature]) : 0.0;
        totals[i] = 0.0;
    }
    const long long stop = (blockIdx.y + 1) * each < q ? (blockIdx.y + 1) * each : q;
    for (long long first = blockIdx.y * each; first < stop; first += DEPTH) {
        stage(weights, down, along, top, n, first, stop, ws);
        for (int k = row; k < DEPTH; k += SIDE) {
            const bool inside = first + k < stop && feature < d;
            zs[k * SIDE + column] = inside ? static_cast<double>(z[(first + k) * d + feature]) : 0.0;
        }
        __syncthreads();
        for (int k = 0; k < DEPTH; ++k) {  // beyond the end, weights are 0
            const double there = zs[k * SIDE + column];
            for (int i = 0; i < EACH; ++i) {
                const double w = ws[k * STRIDE + row + i * SIDE];
                totals[i] += here[i] > there ? w : here[i] < there ? -w : 0.0;
            }
        }
        __syncthreads();
    }
    for (int i = 0; i < EACH; ++i) {
        const long long a = top + row + i * SIDE;
        if (a < n && feature < d) {
            out[(blockIdx.y * n + a) * d + feature] = totals[i];
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
        sign_sums(weights, down, along, x, z, n, q, d, each, out);                               \
    }

KERNELS(float, float32)
KERNELS(double, float64)
