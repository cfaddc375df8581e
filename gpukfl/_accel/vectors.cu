// Steps of conjugate gradients, and centring: the kernels behind gpukfl._accel.cuda_vectors.
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
                               const double *curvature, long long size, long long t, T *new_x,
                               T *new_r) {
    for (long long k = first_element(); k < size; k += element_step()) {
        const T step = static_cast<T>(ratio(rz[k % t], curvature[k % t]));
        new_x[k] = x[k] + step * p[k];
        new_r[k] = r[k] - step * Ap[k];
    }
}

template <class T>
__device__ void conjugate_direction(const T *z, const T *p, const double *rz, const double *rz_old,
                                    long long size, long long t, T *new_p) {
    for (long long k = first_element(); k < size; k += element_step()) {
        new_p[k] = z[k] + static_cast<T>(ratio(rz[k % t], rz_old[k % t])) * p[k];
    }
}

template <class T>
__device__ void subtract_means(const T *v, const double *totals, long long size, long long t,
                               T *out) {
    const double rows = static_cast<double>(size / t);
    for (long long k = first_element(); k < size; k += element_step()) {
        out[k] = v[k] - static_cast<T>(totals[k % t] / rows);
    }
}

// ------------------------------------------------------------------------------------------------
// The templates under names that the host can look up.

#define KERNELS(T, t_)                                                                            \
    extern "C" __global__ void conjugate_step_##t_(                                               \
        const T *x, const T *r, const T *p, const T *Ap, const double *rz,                        \
        const double *curvature, long long size, long long t, T *new_x, T *new_r) {               \
        conjugate_step(x, r, p, Ap, rz, curvature, size, t, new_x, new_r);                        \
    }                                                                                             \
    extern "C" __global__ void conjugate_direction_##t_(                                          \
        const T *z, const T *p, const double *rz, const double *rz_old, long long size,           \
        long long t, T *new_p) {                                                                  \
        conjugate_direction(z, p, rz, rz_old, size, t, new_p);                                    \
    }                                                                                             \
    extern "C" __global__ void subtract_means_##t_(const T *v, const double *totals,              \
                                                   long long size, long long t, T *out) {         \
        subtract_means(v, totals, size, t, out);                                                  \
    }

KERNELS(float, float32)
KERNELS(double, float64)
