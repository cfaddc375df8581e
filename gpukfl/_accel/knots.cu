// Piecewise-linear functions between knots: the kernel behind gpukfl._accel.cuda_knots.
//
// Compiled by NVRTC, so nothing is included. Every parameter is a pointer or a long long, so that
// a host emulation can call any kernel through one type. Numbers are converted to double when they
// are used: differences of floats are then exact.

#ifndef THREADS
#define THREADS 256  // in a block
#endif

// Points a (m, n), knots (m, q) ascending, values (m, q, t), out (n, t). A thread has an entry of
// out, and adds up the functions in turn; neighbours have neighbouring points.
template <class T>
__device__ void interpolate_knots(const T *a, const T *knots, const double *values, long long m,
                                  long long n, long long q, long long t, double *out) {
    const long long step = static_cast<long long>(gridDim.x) * THREADS;
    long long k = static_cast<long long>(blockIdx.x) * THREADS + threadIdx.x;
    for (; k < n * t; k += step) {
        double total = 0.0;
        for (long long j = 0; j < m; ++j) {
            const T x = a[j * n + k / t];
            const T *mine = knots + j * q;
            long long low = 0, high = q;  // the last knot at or left of x is low, if there is one
            while (high - low > 1) {
                const long long middle = (low + high) / 2;
                if (mine[middle] <= x) {
                    low = middle;
                } else {
                    high = middle;
                }
            }
            const double *line = values + (j * q + low) * t + k % t;
            double found = line[0];
            if (low < q - 1 && x > mine[low]) {
                const double left = static_cast<double>(mine[low]);
                const double gap = static_cast<double>(mine[low + 1]) - left;
                found += (static_cast<double>(x) - left) / gap * (line[t] - found);
            }
            total += found;
        }
        out[k] = total;
    }
}

// ------------------------------------------------------------------------------------------------
// The template under names that the host can look up.

#define KERNELS(T, t_)                                                                           \
    extern "C" __global__ void interpolate_knots_##t_(const T *a, const T *knots,                \
                                                      const double *values, long long m,         \
                                                      long long n, long long q, long long t,     \
                                                      double *out) {                             \
        interpolate_knots(a, knots, values, m, n, q, t, out);                                    \
    }

KERNELS(float, float32)
KERNELS(double, float64)
