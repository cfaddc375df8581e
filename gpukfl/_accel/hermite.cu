// Hermite polynomials, and their products: the kernels behind gpukfl._accel.cuda_hermite.
//
// Compiled by NVRTC, so nothing is included. Every parameter is a pointer or a long long, so that
// a host emulation can call any kernel through one type.

#ifndef THREADS
#define THREADS 256  // in a block
#endif

// Values (n, degree + 1, d) at x (n, d), which has `size` elements. A thread climbs the degrees at
// one of them, so that neighbours write to neighbours.
extern "C" __global__ void hermite_table(const double *x, long long size, long long d,
                                         long long degree, double *out) {
    const long long step = static_cast<long long>(gridDim.x) * THREADS;
    long long k = static_cast<long long>(blockIdx.x) * THREADS + threadIdx.x;
    for (; k < size; k += step) {
        double *at = out + k / d * (degree + 1) * d + k % d;
        double before = 0.0, now = 1.0;
        at[0] = now;
        for (long long j = 1; j <= degree; ++j) {
            const double last = sqrt(static_cast<double>(j - 1)) * before;
            before = now;
            now = (x[k] * now - last) / sqrt(static_cast<double>(j));
            at[j * d] = now;
        }
    }
}

// Products (m, n) of some rows of a table (r, n), times scales (m,). Row j is of those at
// rows (most, m), column j, which -1 may end after the first. Neighbours read neighbours.
extern "C" __global__ void row_products(const double *table, const long long *rows,
                                        const double *scales, long long most, long long m,
                                        long long n, double *out) {
    const long long step = static_cast<long long>(gridDim.x) * THREADS;
    long long k = static_cast<long long>(blockIdx.x) * THREADS + threadIdx.x;
    for (; k < m * n; k += step) {
        const long long j = k / n, i = k % n;
        double product = table[rows[j] * n + i];
        for (long long f = 1; f < most; ++f) {
            const long long row = rows[f * m + j];
            if (row < 0) {
                break;
            }
            product *= table[row * n + i];
        }
        out[k] = product * scales[j];
    }
}
