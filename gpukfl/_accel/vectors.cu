// Steps of conjugate gradients, centring and sums of columns: the kernels behind
// gpukfl._accel.cuda_vectors.
//
// Compiled by NVRTC, so nothing is included. Every parameter is a pointer or a long long, so that
// a host emulation can call any kernel through one type. Arrays have `size` elements, rows of t.

#ifndef THREADS
#define THREADS 256  // in a block
#endif

__device__ inline long long first_element() {
    return static_cast<long long>(blockIdx.x) * THREADS + threadIdx.x;
}
__device__ inline long long element_step() {
    return static_cast<long long>(gridDim.x) * THREADS;
}

// 0 where the denominator is 0, unless the numerator is not finite.
__device__ inline double ratio(double num, double den) {
    return den == 0.0 ? num * 0.0 : num / den;
}

template <class T>
__device__ void conjugate_step(const T *x, const T *r, const T *p, const T *Ap, const double *rz,
                               const double *curvature, const double *worst, long long size,
                               long long t, T *new_x, T *new_r, double *new_worst) {
    for (long long k = first_element(); k < size; k += element_step()) {
        const T step = static_cast<T>(ratio(rz[k % t], curvature[k % t]));
        new_x[k] = x[k] + step * p[k];
        new_r[k] = r[k] - step * Ap[k];
    }
    for (long long c = first_element(); c < t; c += element_step()) {
        const bool is_worse = !(curvature[c] >= worst[c]);  // also true for NaN
        new_worst[c] = is_worse && worst[c] == worst[c] ? curvature[c] : worst[c];
    }
}

template <class T>
__device__ void conjugate_direction(const T *z, const T *p, const double *rz, const double *rz_old,
                                    long long size, long long t, T *new_p) {
    for (long long k = first_element(); k < size; k += element_step()) {
        new_p[k] = z[k] + static_cast<T>(ratio(rz[k % t], rz_old[k % t])) * p[k];
    }
}

// ------------------------------------------------------------------------------------------------
// Sums over columns. Thread i of a block has column i % t, so that neighbours read neighbours; t is
// at most THREADS.

struct Sum {
    __device__ static double join(double a, double b) { return a + b; }
};

struct Largest {  // NaN stays
    __device__ static double join(double a, double b) { return a >= b || a != a ? a : b; }
};

// Join the terms of column threadIdx.x % t in rows first, ..., stop - 1, in an order that only
// depends on these. Every thread must call it.
template <class Join, class Term>
__device__ double join_column(const Term &term, long long first, long long stop, long long t) {
    __shared__ double scratch[THREADS];
    const int me = static_cast<int>(threadIdx.x), columns = static_cast<int>(t);
    const int lane = me / columns, lanes = THREADS / columns;
    double mine = 0.0;
    for (long long row = first + lane; row < stop && lane < lanes; row += lanes) {
        mine = Join::join(mine, term(row * t + me % columns));
    }
    scratch[me] = mine;
    __syncthreads();
    for (int step = THREADS / 2; step > 0; step /= 2) {
        if (lane < step && lane + step < lanes) {
            scratch[me] = Join::join(scratch[me], scratch[me + step * columns]);
        }
        __syncthreads();
    }
    return scratch[me % columns];
}

// Block b joins rows b * each, ... of each column: out (blocks, t).
template <class Join, class Term>
__device__ void join_slices(const Term &term, long long rows, long long t, long long each,
                            double *out) {
    const long long first = blockIdx.x * each;
    const long long stop = first + each < rows ? first + each : rows;
    const double total = join_column<Join>(term, first, stop, t);
    if (threadIdx.x < t) {
        out[blockIdx.x * t + threadIdx.x] = total;
    }
}

template <class T>
__device__ void column_dots(const T *u, long long is_more, const T *more, const T *v,
                            long long rows, long long t, long long each, double *out) {
    const auto term = [=](long long k) {
        const T sum = is_more != 0 ? u[k] + more[k] : u[k];
        return static_cast<double>(sum) * v[k];
    };
    join_slices<Sum>(term, rows, t, each, out);
}

template <class T>
__device__ void column_sums(const T *v, long long rows, long long t, long long each, double *out) {
    const auto term = [=](long long k) { return static_cast<double>(v[k]); };
    join_slices<Sum>(term, rows, t, each, out);
}

template <class T>
__device__ void column_maxima(const T *v, long long rows, long long t, long long each,
                              double *out) {
    const auto term = [=](long long k) { return fabs(static_cast<double>(v[k])); };
    join_slices<Largest>(term, rows, t, each, out);
}

// out = product less its columns' means, plus shift times v; the shift is handed over as its bits.
// The columns' sums over slices are given; where there are none, the only block sums columns here.
template <class P, class T>
__device__ void center(const P *product, const double *parts, long long slices, const T *v,
                       long long shift_bits, long long size, long long t, T *out) {
    const long long rows = size / t;
    __shared__ double means[THREADS];
    const auto term = [=](long long k) {
        return slices == 0 ? static_cast<double>(product[k]) : parts[k];
    };
    const double total = join_column<Sum>(term, 0, slices == 0 ? rows : slices, t);
    if (threadIdx.x < t) {
        means[threadIdx.x] = total / static_cast<double>(rows);
    }
    __syncthreads();
    const T shift = static_cast<T>(__longlong_as_double(shift_bits));
    for (long long k = first_element(); k < size; k += element_step()) {
        const T centered = static_cast<T>(product[k] - static_cast<P>(means[k % t]));
        out[k] = shift == 0 ? centered : centered + shift * v[k];
    }
}

// Three vectors of t elements, one behind the other.
extern "C" __global__ void record(const double *first, const double *second, const double *third,
                                  long long t, double *out) {
    for (long long c = first_element(); c < t; c += element_step()) {
        out[c] = first[c];
        out[t + c] = second[c];
        out[2 * t + c] = third[c];
    }
}

// ------------------------------------------------------------------------------------------------
// The templates under names that the host can look up.

#define KERNELS_OF(T, t_)                                                                         \
    extern "C" __global__ void conjugate_step_##t_(                                               \
        const T *x, const T *r, const T *p, const T *Ap, const double *rz,                        \
        const double *curvature, const double *worst, long long size, long long t, T *new_x,      \
        T *new_r, double *new_worst) {                                                            \
        conjugate_step(x, r, p, Ap, rz, curvature, worst, size, t, new_x, new_r, new_worst);      \
    }                                                                                             \
    extern "C" __global__ void conjugate_direction_##t_(                                          \
        const T *z, const T *p, const double *rz, const double *rz_old, long long size,           \
        long long t, T *new_p) {                                                                  \
        conjugate_direction(z, p, rz, rz_old, size, t, new_p);                                    \
    }                                                                                             \
    extern "C" __global__ void column_dots_##t_(                                                  \
        const T *u, long long is_more, const T *more, const T *v, long long rows, long long t,    \
        long long each, double *out) {                                                            \
        column_dots(u, is_more, more, v, rows, t, each, out);                                     \
    }                                                                                             \
    extern "C" __global__ void column_sums_##t_(const T *v, long long rows, long long t,          \
                                                long long each, double *out) {                    \
        column_sums(v, rows, t, each, out);                                                       \
    }                                                                                             \
    extern "C" __global__ void column_maxima_##t_(const T *v, long long rows, long long t,        \
                                                  long long each, double *out) {                  \
        column_maxima(v, rows, t, each, out);                                                     \
    }

#define KERNELS_OF_PRODUCTS(P, p_, T, t_)                                                         \
    extern "C" __global__ void center_##p_##_##t_(                                                \
        const P *product, const double *parts, long long slices, const T *v,                      \
        long long shift_bits, long long size, long long t, T *out) {                              \
        center(product, parts, slices, v, shift_bits, size, t, out);                              \
    }

KERNELS_OF(float, float32)
KERNELS_OF(double, float64)
KERNELS_OF_PRODUCTS(float, float32, float, float32)
KERNELS_OF_PRODUCTS(double, float64, float, float32)
KERNELS_OF_PRODUCTS(double, float64, double, float64)
