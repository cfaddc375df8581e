// Weighted sums of absolute differences: the kernels behind gpukfl._accel.cuda_differences.
//
// Compiled by NVRTC, so nothing is included. Every parameter is a pointer or a long long, so that
// a host emulation can call any kernel through one type. The weights are cut into tiles, of which
// the upper triangle is read. A block has SIDE * SIDE threads, a tile of the features and a slice
// of the tiles. Numbers are converted to double when they are read: differences of floats are
// then exact. Sums run in a fixed order: results repeat to the last bit.
//
// Weights that are given by a factor V (n, m) are not formed: of each feature, its samples are gone
// through in ascending order, and a thread has a column of V and a chunk of the samples.

#ifndef SIDE
#define SIDE 16  // threads along a side of a tile
#endif
#ifndef EACH
#define EACH 4  // rows, and features, of a thread
#endif
#ifndef DEPTH
#define DEPTH 16  // columns of the weights staged at once
#endif

constexpr int TILE = SIDE * EACH;
constexpr int STRIDE = TILE + 1;  // odd, to keep threads off each other's banks

// Weights above the diagonal, [column * STRIDE + row], from (top, left) to column stop <= n; zeros
// elsewhere. Neighbouring threads read neighbouring memory, here and below.
__device__ inline void stage_weights(const double *weights, long long n, long long top,
                                     long long left, long long stop, double *ws) {
    for (int k = static_cast<int>(threadIdx.x); k < TILE * DEPTH; k += SIDE * SIDE) {
        const long long row = top + k / DEPTH, column = left + k % DEPTH;
        const bool read = row < column && column < stop;
        ws[k % DEPTH * STRIDE + k / DEPTH] = read ? weights[row * n + column] : 0.0;
    }
}

// Rows of x from first to stop, features from left to p, [row * TILE + feature]; zeros elsewhere.
template <class T>
__device__ void stage_points(const T *x, long long p, long long first, long long stop,
                             long long left, double *zs) {
    for (int k = static_cast<int>(threadIdx.x); k < TILE * DEPTH; k += SIDE * SIDE) {
        const long long row = first + k / TILE, feature = left + k % TILE;
        const bool read = row < stop && feature < p;
        zs[k] = read ? static_cast<double>(x[row * p + feature]) : 0.0;
    }
}

// The thread's rows and features of x (n, p): every SIDE-th.
template <class T>
__device__ void load_points(const T *x, long long n, long long p, long long first, long long left,
                            double (*here)[EACH]) {
    for (int i = 0; i < EACH; ++i) {
        for (int j = 0; j < EACH; ++j) {
            const long long row = first + i * SIDE, feature = left + j * SIDE;
            const bool read = row < n && feature < p;
            here[i][j] = read ? static_cast<double>(x[row * p + feature]) : 0.0;
        }
    }
}

// Add up what the threads of each feature have, into out from the feature left on.
__device__ inline void add_threads(const double *totals, int row, int column, long long left,
                                   long long p, double *out) {
    __shared__ double sums[SIDE * TILE];
    for (int j = 0; j < EACH; ++j) {
        sums[row * TILE + column + j * SIDE] = totals[j];
    }
    __syncthreads();
    for (int k = static_cast<int>(threadIdx.x); k < TILE; k += SIDE * SIDE) {
        double total = 0.0;
        for (int i = 0; i < SIDE; ++i) {
            total += sums[i * TILE + k];
        }
        if (left + k < p) {
            out[left + k] = total;
        }
    }
}

// Weights (n, n), x (n, p). Block (b, s) has the b-th TILE features and the slice s of the tiles
// on and above the diagonal, row by row, `each` long; its sums go to out (slices, p).
template <class T>
__device__ void difference_sums(const double *weights, const T *x, long long n, long long p,
                                long long each, double *out) {
    __shared__ double ws[DEPTH * STRIDE];
    __shared__ double zs[DEPTH * TILE];
    const long long left = static_cast<long long>(blockIdx.x) * TILE;
    const int row = static_cast<int>(threadIdx.x) / SIDE;
    const int column = static_cast<int>(threadIdx.x) % SIDE;
    const long long tiles = (n + TILE - 1) / TILE;
    const long long all = tiles * (tiles + 1) / 2, start = blockIdx.y * each;
    const long long stop = start + each < all ? start + each : all;
    long long down = 0, along = start;  // row and column of a tile
    while (down < tiles && along >= tiles) {
        ++down;
        along -= tiles - down;
    }
    double here[EACH][EACH], totals[EACH] = {};
    for (long long tile = start; tile < stop; ++tile) {
        load_points(x, n, p, down * TILE + row, left + column, here);
        double parts[EACH] = {};  // of long sums, for fewer rounding errors
        const long long end = (along + 1) * TILE < n ? (along + 1) * TILE : n;
        for (long long first = along * TILE; first < end; first += DEPTH) {
            stage_weights(weights, n, down * TILE, first, end, ws);
            stage_points(x, p, first, end, left, zs);
            __syncthreads();
            for (int k = 0; k < DEPTH; ++k) {  // beyond the end, weights are 0
                double there[EACH];
                for (int j = 0; j < EACH; ++j) {
                    there[j] = zs[k * TILE + column + j * SIDE];
                }
                for (int i = 0; i < EACH; ++i) {
                    const double w = ws[k * STRIDE + row + i * SIDE];
                    for (int j = 0; j < EACH; ++j) {
                        parts[j] += w * fabs(here[i][j] - there[j]);
                    }
                }
            }
            __syncthreads();  // before the next columns are staged
        }
        for (int j = 0; j < EACH; ++j) {
            totals[j] += parts[j];
        }
        if (++along == tiles) {
            along = ++down;
        }
    }
    add_threads(totals, row, column, left, p, out + blockIdx.y * p);
}

// Of p features the order (p, n) of the samples and the gaps (p, n - 1) between them; v (n, m). With
// P the sum of a column from the chunk's first sample up to the one before a gap, out (p, chunks, 4,
// m) holds the last P, and the sums of gaps, of gap * P and of gap * P * P. Neighbouring threads have
// neighbouring columns, and read neighbouring memory.
template <class T>
__device__ void factored_chunks(const T *v, const long long *order, const T *gaps, long long p,
                                long long n, long long m, long long each, long long chunks,
                                double *out) {
    const long long thread = static_cast<long long>(blockIdx.x) * SIDE * SIDE + threadIdx.x;
    const long long column = thread % m, chunk = thread / m;
    if (chunk >= chunks) {
        return;
    }
    const long long first = chunk * each;
    const long long stop = first + each < n ? first + each : n;
    for (long long feature = blockIdx.y; feature < p; feature += gridDim.y) {
        const long long *samples = order + feature * n;
        const T *after = gaps + feature * (n - 1);
        double sum = 0.0, width = 0.0, linear = 0.0, square = 0.0;
        for (long long i = first; i < stop; ++i) {
            sum += static_cast<double>(v[samples[i] * m + column]);
            const double gap = i < n - 1 ? static_cast<double>(after[i]) : 0.0;
            width += gap;
            linear += gap * sum;
            square += gap * sum * sum;
        }
        double *mine = out + (feature * chunks + chunk) * 4 * m + column;
        mine[0] = sum;
        mine[m] = width;
        mine[2 * m] = linear;
        mine[3 * m] = square;
    }
}

// Join the chunks of a block's feature: with C the sum of a column before a chunk, and T of all of
// it, the sum of gap * (C + P) * (T - C - P) follows from what the chunk holds.
extern "C" __global__ void factored_sums(const double *parts, long long m, long long chunks,
                                         double *out) {
    __shared__ double sums[SIDE * SIDE];
    const double *mine = parts + blockIdx.x * chunks * 4 * m;
    double total = 0.0;
    for (long long column = threadIdx.x; column < m; column += SIDE * SIDE) {
        double all = 0.0, before = 0.0;
        for (long long c = 0; c < chunks; ++c) {
            all += mine[c * 4 * m + column];
        }
        for (long long c = 0; c < chunks; ++c) {
            const double *chunk = mine + c * 4 * m + column;
            total += before * (all - before) * chunk[m] + (all - 2.0 * before) * chunk[2 * m];
            total -= chunk[3 * m];
            before += chunk[0];
        }
    }
    sums[threadIdx.x] = total;
    __syncthreads();
    if (threadIdx.x == 0) {
        double sum = 0.0;
        for (int k = 0; k < SIDE * SIDE; ++k) {
            sum += sums[k];
        }
        out[blockIdx.x] = 2.0 * sum;
    }
}

// ------------------------------------------------------------------------------------------------
// The templates under names that the host can look up.

#define KERNELS(T, t)                                                                            \
    extern "C" __global__ void difference_sums_##t(const double *weights, const T *x,            \
                                                   long long n, long long p, long long each,     \
                                                   double *out) {                                \
        difference_sums(weights, x, n, p, each, out);                                            \
    }                                                                                            \
    extern "C" __global__ void factored_chunks_##t(                                              \
        const T *v, const long long *order, const T *gaps, long long p, long long n,             \
        long long m, long long each, long long chunks, double *out) {                            \
        factored_chunks(v, order, gaps, p, n, m, each, chunks, out);                             \
    }

KERNELS(float, float32)
KERNELS(double, float64)
