// Enough of CUDA to run kernels on a CPU: a std::thread for each CUDA thread, with a barrier for
// __syncthreads, and one block after the other. Included before the kernels, as C++20.

#pragma once

#include <math.h>
#include <string.h>

#include <atomic>
#include <barrier>
#include <optional>
#include <thread>
#include <vector>

struct Dimensions {
    unsigned int x, y;
};
inline thread_local Dimensions threadIdx, blockIdx;
inline Dimensions blockDim, gridDim;
inline std::optional<std::barrier<>> block_barrier;
inline unsigned char *dynamic_shared;

#define __global__
#define __device__
#define __shared__ static  // one block at a time, so that all threads that run share it
#define DYNAMIC_SHARED(type, name) type *name = reinterpret_cast<type *>(dynamic_shared)

inline void __syncthreads() { block_barrier->arrive_and_wait(); }

template <class T>
T atomicAdd(T *place, T amount) {
    return std::atomic_ref<T>(*place).fetch_add(amount);
}

inline double __longlong_as_double(long long bits) {
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

// Kernels take pointers and long long only, which calling conventions of 64-bit CPUs pass alike
// and where a callee ignores what comes after its last parameter: one type calls them all.
constexpr int MAX_ARGUMENTS = 12;
using Kernel = void (*)(long long, long long, long long, long long, long long, long long,
                        long long, long long, long long, long long, long long, long long);

extern "C" void launch(Kernel kernel, long long grid_x, long long grid_y, long long threads,
                       long long shared_bytes, const long long *a) {
    std::vector<unsigned char> shared(shared_bytes, 0xAB);  // never zero at first, as on a GPU
    block_barrier.emplace(threads);
    dynamic_shared = shared.data();
    gridDim = {static_cast<unsigned int>(grid_x), static_cast<unsigned int>(grid_y)};
    blockDim = {static_cast<unsigned int>(threads), 1};
    const auto run = [&](unsigned int me) {
        threadIdx = {me, 0};
        for (unsigned int y = 0; y < gridDim.y; ++y) {
            for (unsigned int x = 0; x < gridDim.x; ++x) {
                blockIdx = {x, y};
                kernel(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11]);
                __syncthreads();  // shared memory is the next block's
            }
        }
    };
    std::vector<std::thread> block;
    for (unsigned int me = 0; me < threads; ++me) {
        block.emplace_back(run, me);
    }
    for (std::thread &thread : block) {
        thread.join();
    }
}
