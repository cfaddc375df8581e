// Hermite polynomials: the kernel behind gpukfl._accel.cuda_hermite.
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
