// Sums over sorted and over binned projections: the kernels behind gpukfl._accel.cuda.
//
// Compiled by NVRTC, so nothing is included. Every parameter is a pointer or a long long, so that
// a host emulation can call any kernel through one type. Sums are double in a fixed order, or
// 64-bit integers where threads meet in one place: results repeat to the last bit.

#ifndef THREADS
#define THREADS 256  // in a block
#endif
#ifndef ITEMS
#define ITEMS 8  // sorted elements that one thread scans
#endif
#ifndef DYNAMIC_SHARED
#define DYNAMIC_SHARED(type, name) extern __shared__ type name[]
#endif

constexpr int CHUNK = THREADS * ITEMS;  // sorted elements of one block
constexpr int SLOTS = CHUNK + THREADS;

// Where element k of a chunk is staged: an odd stride between threads keeps them off each
// other's shared-memory banks.
__device__ inline int slot(int k) { return k + k / ITEMS; }

// First sample of a thread, and the distance to its next: grids may be smaller than the data.
__device__ inline long long first_sample() {
    return static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ inline long long sample_step() {
    return static_cast<long long>(gridDim.x) * blockDim.x;
}

// ------------------------------------------------------------------------------------------------
// Sorting

// Rows (m, n), and in each row the positions of its sorted entries.
template <class A>
__device__ void unpack_order(const A *rows, const long long *sorted, long long m, long long n,
                             A *values, int *order, int *rank) {
    for (long long start = blockIdx.y * n; start < m * n; start += gridDim.y * n) {
        for (long long k = first_sample(); k < n; k += sample_step()) {
            const long long i = sorted[start + k];
            values[start + k] = rows[start + i];
            order[start + k] = static_cast<int>(i);
            rank[start + i] = static_cast<int>(k);
        }
    }
}

// ------------------------------------------------------------------------------------------------
// Scans of sorted rows. A state sums up a run of consecutive elements, each a weight v behind a
// gap; `then` joins it with the run that follows, and is associative.

struct Mass {  // level: the sum of v
    static constexpr bool uses_gaps = false;
    double level;
    __device__ static Mass of(double v, double) { return {v}; }
    __device__ Mass then(const Mass &next) const { return {level + next.level}; }
};

struct Ridge {  // level: minus the sum over gaps of (gap times the sum of v before it)
    static constexpr bool uses_gaps = true;
    double sum, length, level;
    __device__ static Ridge of(double v, double gap) { return {v, gap, 0.0}; }
    __device__ Ridge then(const Ridge &next) const {
        return {sum + next.sum, length + next.length, level + next.level - sum * next.length};
    }
};

// Join the states of all lower threads of the block. Every thread must call it.
template <class State>
__device__ State join_below(const State &mine, State *scratch) {
    const int me = static_cast<int>(threadIdx.x);
    State joined = mine;
    scratch[me] = joined;
    __syncthreads();
    for (int step = 1; step < THREADS; step *= 2) {
        const State below = me >= step ? scratch[me - step] : State::of(0.0, 0.0);
        __syncthreads();
        joined = below.then(joined);
        scratch[me] = joined;
        __syncthreads();
    }
    return me > 0 ? scratch[me - 1] : State::of(0.0, 0.0);
}

// One chunk of one row, staged in shared memory so that global reads and writes are coalesced
// although each thread scans consecutive elements.
template <class State>
struct Chunk {
    double *mass;  // [SLOTS], later the levels
    double *gaps;  // [SLOTS], unused without gaps
    long long row, first, n;

    template <class A, class V>
    __device__ void load(const A *values, const int *order, const V *v) const {
        for (int k = static_cast<int>(threadIdx.x); k < CHUNK; k += THREADS) {
            const long long at = first + k;
            const bool inside = at < n;  // beyond the end, zeros change no state
            mass[slot(k)] = inside ? static_cast<double>(v[order[row * n + at]]) : 0.0;
            if constexpr (State::uses_gaps) {
                const A *here = values + row * n + at;
                gaps[slot(k)] = inside && at > 0
                                    ? static_cast<double>(here[0]) - static_cast<double>(here[-1])
                                    : 0.0;
            }
        }
        __syncthreads();
    }

    __device__ State element(int k) const {
        const int at = slot(static_cast<int>(threadIdx.x) * ITEMS + k);
        if constexpr (State::uses_gaps) {
            return State::of(mass[at], gaps[at]);
        } else {
            return State::of(mass[at], 0.0);
        }
    }

    __device__ State join_mine() const {
        State mine = State::of(0.0, 0.0);
        for (int k = 0; k < ITEMS; ++k) {
            mine = mine.then(element(k));
        }
        return mine;
    }

    __device__ void replace_by_levels(State state) const {
        for (int k = 0; k < ITEMS; ++k) {
            state = state.then(element(k));
            mass[slot(static_cast<int>(threadIdx.x) * ITEMS + k)] = state.level;
        }
        __syncthreads();
    }

    __device__ void store(double *levels) const {
        for (int k = static_cast<int>(threadIdx.x); k < CHUNK && first + k < n; k += THREADS) {
            levels[first + k] = mass[slot(k)];
        }
    }
};

// Block b has chunk b % chunks of row b / chunks.
#define STAGE_CHUNK(State)                                    \
    __shared__ double mass[SLOTS];                            \
    __shared__ double gaps[State::uses_gaps ? SLOTS : 1];     \
    __shared__ State scratch[THREADS];                        \
    const long long row = blockIdx.x / chunks;                \
    const long long first = blockIdx.x % chunks * CHUNK;      \
    const Chunk<State> chunk{mass, gaps, row, first, n};      \
    chunk.load(values, order, v);                             \
    const State mine = chunk.join_mine();                     \
    const State below = join_below(mine, scratch)

// Phase 1: the state of each chunk.
template <class State, class A, class V>
__device__ void scan_chunks(const A *values, const int *order, const V *v, long long n,
                            long long chunks, State *states) {
    STAGE_CHUNK(State);
    if (threadIdx.x == THREADS - 1) {
        states[blockIdx.x] = below.then(mine);
    }
}

// Phase 2, a block for each row: replace each chunk's state by that of all chunks before it.
template <class State>
__device__ void scan_carries(long long chunks, State *states) {
    __shared__ State scratch[THREADS];
    State *row = states + blockIdx.x * chunks;
    const long long share = (chunks + THREADS - 1) / THREADS;
    const long long first = threadIdx.x * share;
    const long long stop = first + share < chunks ? first + share : chunks;
    State mine = State::of(0.0, 0.0);
    for (long long k = first; k < stop; ++k) {
        mine = mine.then(row[k]);
    }
    State before = join_below(mine, scratch);
    for (long long k = first; k < stop; ++k) {
        const State here = row[k];
        row[k] = before;
        before = before.then(here);
    }
}

// Phase 3: the level at each element; row j of the levels starts at j * stride.
template <class State, class A, class V>
__device__ void scan_levels(const A *values, const int *order, const V *v, long long n,
                            long long chunks, const State *states, long long stride,
                            double *levels) {
    STAGE_CHUNK(State);
    chunk.replace_by_levels(states[blockIdx.x].then(below));
    chunk.store(levels + chunk.row * stride);
}

// Sum the levels at a sample's rank in each row, on top of what out[i * stride] holds if `added` is
// not 0. One after the other, so that the result does not depend on how the rows were cut into
// blocks.
extern "C" __global__ void add_levels(const double *levels, const int *rank, long long rows,
                                      long long n, long long added, long long stride,
                                      double *out) {
    for (long long i = first_sample(); i < n; i += sample_step()) {
        double total = added != 0 ? out[i * stride] : 0.0;
        for (long long j = 0; j < rows; ++j) {
            total += levels[j * n + rank[j * n + i]];
        }
        out[i * stride] = total;
    }
}

// First of the elements tied with row[k].
template <class A>
__device__ long long first_tied(const A *row, long long k) {
    const A value = row[k];
    if (k == 0 || row[k - 1] != value) {  // ties are rare
        return k;
    }
    long long low = 0;
    while (low < k) {
        const long long middle = low + (k - low) / 2;
        if (row[middle] < value) {
            low = middle + 1;
        } else {
            k = middle;
        }
    }
    return low;
}

// Last of the elements tied with row[k].
template <class A>
__device__ long long last_tied(const A *row, long long k, long long n) {
    const A value = row[k];
    if (k + 1 == n || row[k + 1] != value) {
        return k;
    }
    long long high = n - 1;
    while (k < high) {
        const long long middle = high - (high - k) / 2;
        if (value < row[middle]) {
            high = middle - 1;
        } else {
            k = middle;
        }
    }
    return high;
}

// mass[(j * t + c) * n + k] is the sum of column c of z over the k + 1 smallest of row j.
template <class A, class Z>
__device__ void sign_products(const A *values, const int *rank, const double *mass, const Z *z,
                              long long rows, long long n, long long t, Z *out) {
    for (long long j = blockIdx.y; j < rows; j += gridDim.y) {
        const A *row = values + j * n;
        for (long long i = first_sample(); i < n; i += sample_step()) {
            const long long k = rank[j * n + i];
            const long long first = first_tied(row, k);
            const long long last = last_tied(row, k, n);
            double total = 0.0;
            for (long long c = 0; c < t; ++c) {
                const double *upto = mass + (j * t + c) * n;
                const double below = first > 0 ? upto[first - 1] : 0.0;
                const double above = upto[n - 1] - upto[last];
                total += static_cast<double>(z[i * t + c]) * (below - above);
            }
            out[j * n + i] = static_cast<Z>(total);
        }
    }
}

// ------------------------------------------------------------------------------------------------
// Bins. A position is a knot number in fixed point, with `shift` bits for the share of a cell.

struct Decoder {
    int shift;
    unsigned int mask;
    double unit;

    __device__ explicit Decoder(long long shift)
        : shift(static_cast<int>(shift)), mask((1u << shift) - 1u), unit(1.0 / (1u << shift)) {}
    __device__ long long cell(int code) const { return static_cast<unsigned int>(code) >> shift; }
    __device__ double share(int code) const { return (code & mask) * unit; }
};

// Place projections a (m, n) among knots that start at low (m), gap (m) apart: codes (m, n).
template <class A>
__device__ void encode(const A *a, const double *low, const double *gap, long long m, long long n,
                       long long n_knots, long long shift, int *codes) {
    const double last = static_cast<double>(n_knots - 1), unit = static_cast<double>(1u << shift);
    for (long long j = blockIdx.y; j < m; j += gridDim.y) {
        for (long long i = first_sample(); i < n; i += sample_step()) {
            const double at = (static_cast<double>(a[j * n + i]) - low[j]) / gap[j];
            const double inside = at >= 0.0 ? (at < last ? at : last) : 0.0;  // NaN to 0
            codes[j * n + i] = static_cast<int>(floor(inside * unit));
        }
    }
}

// Empty `size` sums, and choose their fixed point from the largest |v| of each of t columns of at
// most 2^bits elements, in parts (slices, t): root^2 times a column sums to at most 2^62. A power
// of two, so that scaling is exact; its root, because the square may overflow a double where its
// use does not. Made here because reading the largest |v| on the host would wait for the device.
// NaN marks a column that is not finite, and makes all its sums NaN.
extern "C" __global__ void bin_roots(const double *parts, long long slices, long long t,
                                     long long bits, double *roots, long long size,
                                     unsigned long long *sums) {
    for (long long k = first_sample(); k < size; k += sample_step()) {
        sums[k] = 0;
    }
    for (long long c = first_sample(); c < t; c += sample_step()) {
        double largest = 0.0;
        for (long long s = 0; s < slices; ++s) {
            const double part = parts[s * t + c];
            largest = largest >= part || largest != largest ? largest : part;
        }
        int exponent = 0;
        frexp(largest, &exponent);
        const int half = (62 - static_cast<int>(bits) - exponent) >> 1;
        // x - x is NaN for NaN and infinite x, and 0 otherwise
        roots[c] = isfinite(largest) ? ldexp(1.0, half) : largest - largest;
    }
}

struct GlobalBins {
    unsigned long long *sums;
    __device__ void add(long long cell, long long amount) const {
        atomicAdd(sums + cell, static_cast<unsigned long long>(amount));
    }
};

// In halves, because shared memory adds 32 bits at once but 64 only by compare-and-swap in a loop.
struct SharedBins {
    unsigned int *low, *high;
    __device__ void add(long long cell, long long amount) const {
        const unsigned int lower = static_cast<unsigned int>(amount);
        const unsigned int upper =
            static_cast<unsigned int>(static_cast<unsigned long long>(amount) >> 32);
        const unsigned int before = atomicAdd(low + cell, lower);
        const unsigned int carry = before + lower < before ? 1u : 0u;
        atomicAdd(high + cell, upper + carry);
    }
};

// Spread v over the two knots around each of the samples first, ..., stop - 1 of a row.
template <class Bins, class V>
__device__ void spread(const Bins &bins, const int *codes, const Decoder &decode, const V *v,
                       double root, long long first, long long stop, long long n_knots) {
    for (long long i = first + threadIdx.x; i < stop; i += blockDim.x) {
        const double scaled = static_cast<double>(v[i]) * root * root;
        const long long whole = llrint(scaled);
        const long long moved = llrint(decode.share(codes[i]) * scaled);
        const long long cell = decode.cell(codes[i]);
        bins.add(cell, whole - moved);
        if (moved != 0 && cell + 1 < n_knots) {  // at the last knot nothing moves on
            bins.add(cell + 1, moved);
        }
    }
}

// Block b has slice b % slices, of `each` samples, of row b / slices.
template <class V>
__device__ void bin_sums_shared(const int *codes, long long shift, const V *v, const double *root,
                                long long n, long long n_knots, long long each, long long slices,
                                unsigned long long *sums) {
    DYNAMIC_SHARED(unsigned int, halves);  // 2 * n_knots
    const SharedBins bins{halves, halves + n_knots};
    for (long long k = threadIdx.x; k < 2 * n_knots; k += blockDim.x) {
        halves[k] = 0;
    }
    __syncthreads();
    const long long row = blockIdx.x / slices;
    const long long first = blockIdx.x % slices * each;
    const long long stop = first + each < n ? first + each : n;
    spread(bins, codes + row * n, Decoder(shift), v, *root, first, stop, n_knots);
    __syncthreads();
    for (long long k = threadIdx.x; k < n_knots; k += blockDim.x) {
        const unsigned long long upper = bins.high[k];
        const unsigned long long sum = upper << 32 | bins.low[k];
        if (sum != 0) {
            atomicAdd(sums + row * n_knots + k, sum);
        }
    }
}

template <class V>
__device__ void bin_sums_global(const int *codes, long long shift, const V *v, const double *root,
                                long long n, long long n_knots, long long each, long long slices,
                                unsigned long long *sums) {
    const long long row = blockIdx.x / slices;
    const long long first = blockIdx.x % slices * each;
    const long long stop = first + each < n ? first + each : n;
    const GlobalBins bins{sums + row * n_knots};
    spread(bins, codes + row * n, Decoder(shift), v, *root, first, stop, n_knots);
}

// From sums (t, size) in fixed point to out (size, t).
extern "C" __global__ void bin_totals(const unsigned long long *sums, const double *roots,
                                      long long size, long long t, double *out) {
    for (long long k = first_sample(); k < size * t; k += sample_step()) {
        const long long c = k % t;
        const long long sum = static_cast<long long>(sums[c * size + k / t]);
        out[k] = static_cast<double>(sum) / roots[c] / roots[c];
    }
}

// From sums (t, m, n_knots) in fixed point the ridge functions they are of at the knots, which are
// gap (m) apart, over `particles`: out (m, n_knots, t). Block b has column b % t of row b / t.
extern "C" __global__ void knot_levels(const unsigned long long *sums, const double *roots,
                                       const double *gap, long long m, long long n_knots,
                                       long long t, long long particles, double *out) {
    __shared__ Ridge scratch[THREADS];
    const long long j = blockIdx.x / t, c = blockIdx.x % t;
    const unsigned long long *row = sums + (c * m + j) * n_knots;
    const auto element = [=](long long k) {
        const double sum = static_cast<double>(static_cast<long long>(row[k]));
        return Ridge::of(sum / roots[c] / roots[c], k > 0 ? gap[j] : 0.0);
    };
    const long long share = (n_knots + THREADS - 1) / THREADS;
    const long long first = threadIdx.x * share;
    const long long stop = first + share < n_knots ? first + share : n_knots;
    Ridge mine = Ridge::of(0.0, 0.0);
    for (long long k = first; k < stop; ++k) {
        mine = mine.then(element(k));
    }
    Ridge state = join_below(mine, scratch);
    for (long long k = first; k < stop; ++k) {
        state = state.then(element(k));
        out[(j * n_knots + k) * t + c] = state.level / static_cast<double>(particles);
    }
}

// ------------------------------------------------------------------------------------------------
// Pairs of rows

// Add a product of shares to the table of a pair, in rows top, ..., top + height - 1 of its knots.
struct PairTable {
    unsigned int *sums;
    long long top, height, n_knots;
    __device__ void add(long long row, unsigned int share, long long column,
                        unsigned int next, unsigned int unit) const {
        const long long at = row - top;
        if (share != 0 && at >= 0 && at < height) {
            atomicAdd(sums + at * n_knots + column, share * (unit - next));
            if (next != 0) {  // at the last knot nothing moves on
                atomicAdd(sums + at * n_knots + column + 1, share * next);
            }
        }
    }
};

// Sum over the samples the products of the shares that rows j <= k of the codes give their knots,
// j one of the first `rows`: sums (rows * n_knots, m * n_knots), in units of 4^-shift. Block (b, s)
// has `height` knots of row j, of the pair b / tiles, and the slice s of the samples, `each` long:
// so few that 32 bits do.
extern "C" __global__ void pair_sums(const int *codes, long long shift, long long rows, long long m,
                                     long long n, long long n_knots, long long height,
                                     long long each, unsigned long long *sums) {
    DYNAMIC_SHARED(unsigned int, shares);  // height * n_knots
    const long long tiles = (n_knots + height - 1) / height;
    long long j = 0, k = blockIdx.x / tiles;
    for (; k >= m - j; ++j) {
        k -= m - j;
    }
    k += j;
    const PairTable table{shares, blockIdx.x % tiles * height, height, n_knots};
    for (long long i = threadIdx.x; i < height * n_knots; i += blockDim.x) {
        shares[i] = 0;
    }
    __syncthreads();
    const unsigned int unit = 1u << shift;
    const long long stop = (blockIdx.y + 1) * each < n ? (blockIdx.y + 1) * each : n;
    for (long long i = blockIdx.y * each + threadIdx.x; i < stop; i += blockDim.x) {
        const unsigned int left = static_cast<unsigned int>(codes[j * n + i]);
        const unsigned int right = static_cast<unsigned int>(codes[k * n + i]);
        const unsigned int moved = left & (unit - 1), next = right & (unit - 1);
        const long long row = left >> shift, column = right >> shift;
        table.add(row, unit - moved, column, next, unit);
        table.add(row + 1, moved, column, next, unit);
    }
    __syncthreads();
    const long long size = m * n_knots;
    for (long long i = threadIdx.x; i < height * n_knots; i += blockDim.x) {
        const unsigned long long sum = shares[i];
        const long long row = j * n_knots + table.top + i / n_knots;
        const long long column = k * n_knots + i % n_knots;
        if (sum != 0) {
            atomicAdd(sums + row * size + column, sum);
            if (j != k && k < rows) {
                atomicAdd(sums + column * size + row, sum);
            }
        }
    }
}

// `at` is the first knot's value; the knots' values lie t apart.
__device__ inline double interpolate(const double *at, const Decoder &decode, int code,
                                     long long n_knots, long long t) {
    const long long cell = decode.cell(code);
    const double left = at[cell * t];
    const double right = cell + 1 < n_knots ? at[(cell + 1) * t] : left;
    return left + decode.share(code) * (right - left);
}

// u (m, n_knots, t), out (n, t); a thread for each entry of out.
extern "C" __global__ void interpolate_bins(const int *codes, long long shift, const double *u,
                                            long long m, long long n, long long n_knots,
                                            long long t, double *out) {
    const Decoder decode(shift);
    for (long long k = first_sample(); k < n * t; k += sample_step()) {
        const long long i = k / t;
        const double *column = u + k % t;
        double total = 0.0;
        for (long long j = 0; j < m; ++j) {
            total += interpolate(column + j * n_knots * t, decode, codes[j * n + i], n_knots, t);
        }
        out[k] = total;
    }
}

// s (m, n_knots, t), z (n, t), out (m, n).
template <class Z>
__device__ void bin_products(const int *codes, long long shift, const double *s, const Z *z,
                             long long m, long long n, long long n_knots, long long t, Z *out) {
    const Decoder decode(shift);
    for (long long j = blockIdx.y; j < m; j += gridDim.y) {
        const double *row = s + j * n_knots * t;
        for (long long i = first_sample(); i < n; i += sample_step()) {
            const int code = codes[j * n + i];
            double total = 0.0;
            for (long long c = 0; c < t; ++c) {
                total += static_cast<double>(z[i * t + c]) *
                         interpolate(row + c, decode, code, n_knots, t);
            }
            out[j * n + i] = static_cast<Z>(total);
        }
    }
}

// ------------------------------------------------------------------------------------------------
// The templates under names that the host can look up: dtypes of the projections, then of v or z.

#define KERNELS_OF_PROJECTIONS(A, a)                                                             \
    extern "C" __global__ void unpack_order_##a(const A *rows, const long long *sorted,          \
                                                long long m, long long n, A *values, int *order, \
                                                int *rank) {                                     \
        unpack_order(rows, sorted, m, n, values, order, rank);                                   \
    }                                                                                            \
    extern "C" __global__ void encode_##a(const A *projections, const double *low,               \
                                          const double *gap, long long m, long long n,           \
                                          long long n_knots, long long shift, int *codes) {      \
        encode(projections, low, gap, m, n, n_knots, shift, codes);                              \
    }

#define KERNELS_OF_WEIGHTS(V, v_)                                                                \
    extern "C" __global__ void mass_chunks_##v_(const int *order, const V *v, long long n,       \
                                                long long chunks, Mass *states) {                \
        scan_chunks<Mass, double, V>(nullptr, order, v, n, chunks, states);                      \
    }                                                                                            \
    extern "C" __global__ void mass_levels_##v_(const int *order, const V *v, long long n,       \
                                                long long chunks, const Mass *states,            \
                                                long long stride, double *levels) {              \
        scan_levels<Mass, double, V>(nullptr, order, v, n, chunks, states, stride, levels);      \
    }                                                                                            \
    extern "C" __global__ void bin_sums_shared_##v_(                                             \
        const int *codes, long long shift, const V *v, const double *root, long long n,          \
        long long n_knots, long long each, long long slices, unsigned long long *sums) {         \
        bin_sums_shared(codes, shift, v, root, n, n_knots, each, slices, sums);                  \
    }                                                                                            \
    extern "C" __global__ void bin_sums_global_##v_(                                             \
        const int *codes, long long shift, const V *v, const double *root, long long n,          \
        long long n_knots, long long each, long long slices, unsigned long long *sums) {         \
        bin_sums_global(codes, shift, v, root, n, n_knots, each, slices, sums);                  \
    }                                                                                            \
    extern "C" __global__ void bin_products_##v_(const int *codes, long long shift,              \
                                                 const double *s, const V *z, long long m,       \
                                                 long long n, long long n_knots, long long t,    \
                                                 V *out) {                                       \
        bin_products(codes, shift, s, z, m, n, n_knots, t, out);                                 \
    }

#define KERNELS_OF_BOTH(A, a, V, v_)                                                             \
    extern "C" __global__ void ridge_chunks_##a##_##v_(const A *values, const int *order,        \
                                                       const V *v, long long n,                  \
                                                       long long chunks, Ridge *states) {        \
        scan_chunks<Ridge>(values, order, v, n, chunks, states);                                 \
    }                                                                                            \
    extern "C" __global__ void ridge_levels_##a##_##v_(                                          \
        const A *values, const int *order, const V *v, long long n, long long chunks,            \
        const Ridge *states, long long stride, double *levels) {                                 \
        scan_levels(values, order, v, n, chunks, states, stride, levels);                        \
    }                                                                                            \
    extern "C" __global__ void sign_products_##a##_##v_(                                         \
        const A *values, const int *rank, const double *mass, const V *z, long long rows,        \
        long long n, long long t, V *out) {                                                      \
        sign_products(values, rank, mass, z, rows, n, t, out);                                   \
    }

extern "C" __global__ void ridge_carries(long long chunks, Ridge *states) {
    scan_carries(chunks, states);
}
extern "C" __global__ void mass_carries(long long chunks, Mass *states) {
    scan_carries(chunks, states);
}
KERNELS_OF_PROJECTIONS(float, float32)
KERNELS_OF_PROJECTIONS(double, float64)
KERNELS_OF_WEIGHTS(float, float32)
KERNELS_OF_WEIGHTS(double, float64)
KERNELS_OF_BOTH(float, float32, float, float32)
KERNELS_OF_BOTH(float, float32, double, float64)
KERNELS_OF_BOTH(double, float64, float, float32)
KERNELS_OF_BOTH(double, float64, double, float64)
