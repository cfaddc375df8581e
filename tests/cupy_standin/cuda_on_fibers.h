// CUDA kernels at their shipped sizes on one thread of a CPU. Included before the kernels, as C++20.
//
// Every thread of a block is a fiber, and blocks run one after the other. Shared memory is poisoned
// before each block. Between two barriers threads run in an order that the caller's seed gives, as
// do the blocks: a kernel whose result depends on it has a race. A block of which some threads have
// ended while others wait at a barrier is an error.
//
// Built with REPLAYED, every CUDA thread is a std::thread, for the sanitizers.

#pragma once

#include <elf.h>
#include <link.h>
#include <math.h>
#include <string.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <random>
#include <thread>
#include <vector>

struct Dimensions {
    unsigned int x, y, z;
};

#define __global__
#define __device__
#define DYNAMIC_SHARED(type, name) type *name = reinterpret_cast<type *>(dynamic_shared)

inline double __longlong_as_double(long long bits) {
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

// Kernels take pointers and long long only, which calling conventions of 64-bit CPUs pass alike
// and where a callee ignores what comes after its last parameter: one type calls them all.
constexpr int MAX_ARGUMENTS = 16;
using Word = long long;
using Kernel = void (*)(Word, Word, Word, Word, Word, Word, Word, Word, Word, Word, Word, Word, Word,
                        Word, Word, Word);

inline Dimensions blockDim, gridDim;
inline unsigned char *dynamic_shared;
constexpr int POISON = 0xFF;  // NaN as a number

inline void call(Kernel kernel, const Word *a) {
    kernel(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11], a[12], a[13],
           a[14], a[15]);
}

#ifdef REPLAYED

inline thread_local Dimensions threadIdx, blockIdx;
inline std::barrier<> *block_barrier;
#define __shared__ static  // one block at a time, so that all threads that run share it

inline void __syncthreads() { block_barrier->arrive_and_wait(); }

template <class T>
T atomicAdd(T *place, T amount) {
    return std::atomic_ref<T>(*place).fetch_add(amount, std::memory_order_relaxed);
}

// With sanitizers dynamic shared memory is an allocation of its own, so that overruns are seen.
inline void launch_threads(Kernel kernel, Dimensions grid, unsigned int threads, size_t shared,
                           const Word *a) {
    std::barrier<> barrier(threads);
    block_barrier = &barrier;
    gridDim = grid;
    blockDim = {threads, 1, 1};
    std::vector<unsigned char> memory(shared, POISON);
    dynamic_shared = memory.data();
    const auto run = [&](unsigned int me) {
        threadIdx = {me, 0, 0};
        for (unsigned int y = 0; y < grid.y; ++y) {
            for (unsigned int x = 0; x < grid.x; ++x) {
                blockIdx = {x, y, 0};
                call(kernel, a);
                barrier.arrive_and_wait();  // shared memory is the next block's
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

#else

inline Dimensions threadIdx, blockIdx;
// There is one thread, so that what is local to it is shared by the fibers, and found by `Shared`
#define __shared__ static thread_local

template <class T>
T atomicAdd(T *place, T amount) {
    const T before = *place;
    *place = before + amount;
    return before;
}

// The shared memory of all kernels of this library: its thread-local storage.
struct Shared {
    unsigned char *start = nullptr;
    size_t size = 0;

    static int look_at(struct dl_phdr_info *library, size_t, void *found) {
        const auto here = reinterpret_cast<uintptr_t>(&Shared::look_at);
        const ElfW(Phdr) *storage = nullptr;
        bool mine = false;
        for (int k = 0; k < library->dlpi_phnum; ++k) {
            const ElfW(Phdr) &part = library->dlpi_phdr[k];
            const uintptr_t start = library->dlpi_addr + part.p_vaddr;
            mine = mine || (part.p_type == PT_LOAD && here >= start && here < start + part.p_memsz);
            storage = part.p_type == PT_TLS ? &part : storage;
        }
        if (mine && storage != nullptr && library->dlpi_tls_data != nullptr) {
            *static_cast<Shared *>(found) = {static_cast<unsigned char *>(library->dlpi_tls_data),
                                             storage->p_memsz};
        }
        return mine;
    }

    void poison() {
        if (start == nullptr) {  // there is none before a kernel has touched it
            dl_iterate_phdr(look_at, this);
        }
        if (start != nullptr) {
            memset(start, POISON, size);
        }
    }
};

// Save where a fiber is, and go on where another one was.
extern "C" void switch_fibers(void **from, void *to);
__asm__(
    ".text\n.globl switch_fibers\n.type switch_fibers,@function\nswitch_fibers:\n"
    "pushq %rbp\npushq %rbx\npushq %r12\npushq %r13\npushq %r14\npushq %r15\n"
    "movq %rsp,(%rdi)\nmovq %rsi,%rsp\n"
    "popq %r15\npopq %r14\npopq %r13\npopq %r12\npopq %rbx\npopq %rbp\nret\n"
    ".size switch_fibers,.-switch_fibers\n");

struct Fiber {
    enum State { WAITING, ENDED };
    static constexpr size_t STACK = 64 * 1024;
    static constexpr int SAVED = 6;  // registers that switch_fibers keeps on the stack

    unsigned int me = 0;
    State state = WAITING;
    void *top = nullptr;
    char *stack = nullptr;

    void start_at(void (*entry)()) {
        if (stack == nullptr) {
            stack = static_cast<char *>(mmap(nullptr, STACK, PROT_READ | PROT_WRITE,
                                             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
        }
        void **words = reinterpret_cast<void **>(stack + STACK) - 2 - SAVED;
        std::fill(words, words + SAVED + 2, nullptr);
        words[SAVED] = reinterpret_cast<void *>(entry);  // where `ret` goes; the stack is aligned
        top = words;
        state = WAITING;
    }
};

// A block, and the order in which its threads run.
struct Block {
    std::vector<Fiber> fibers;
    std::vector<unsigned int> order;
    void *scheduler = nullptr;
    Fiber *running = nullptr;
    Kernel kernel = nullptr;
    const Word *args = nullptr;
    const char *failure = nullptr;

    void go_on(Fiber &fiber) {
        running = &fiber;
        threadIdx = {fiber.me, 0, 0};
        switch_fibers(&scheduler, fiber.top);
    }

    void give_back() { switch_fibers(&running->top, scheduler); }

    static void entry();

    // Run all threads to their ends, from barrier to barrier.
    template <class Random>
    void run(unsigned int threads, bool shuffled, Random &random) {
        fibers.resize(std::max<size_t>(fibers.size(), threads));
        for (unsigned int me = 0; me < threads; ++me) {
            fibers[me].me = me;
            fibers[me].start_at(&Block::entry);
        }
        for (unsigned int ended = 0; ended < threads && failure == nullptr;) {
            if (shuffled) {
                std::shuffle(order.begin(), order.end(), random);
            }
            for (const unsigned int me : order) {
                go_on(fibers[me]);
            }
            for (const unsigned int me : order) {
                ended += fibers[me].state == Fiber::ENDED;
            }
            if (ended != 0 && ended != threads) {
                failure = "some threads of a block ended while others wait at a barrier";
            }
        }
    }
};
inline Block block;

inline void Block::entry() {
    call(block.kernel, block.args);
    block.running->state = Fiber::ENDED;
    block.give_back();
    abort();
}

inline void __syncthreads() {
    block.give_back();
    threadIdx = {block.running->me, 0, 0};
}

// Seed 0: threads and blocks in ascending order; 1: descending; others: in random orders.
// Returns what went wrong, or nothing.
extern "C" const char *launch(Kernel kernel, Word grid_x, Word grid_y, Word threads,
                              Word shared_bytes, const Word *args, unsigned long long seed) {
    static Shared shared;
    std::mt19937_64 random(seed);
    gridDim = {static_cast<unsigned int>(grid_x), static_cast<unsigned int>(grid_y), 1};
    blockDim = {static_cast<unsigned int>(threads), 1, 1};
    std::vector<unsigned char> memory(shared_bytes);
    dynamic_shared = memory.data();
    std::vector<long long> blocks(grid_x * grid_y);
    block.order.resize(threads);
    for (size_t k = 0; k < blocks.size(); ++k) {
        blocks[k] = seed == 1 ? blocks.size() - 1 - k : k;
    }
    for (unsigned int k = 0; k < threads; ++k) {
        block.order[k] = seed == 1 ? static_cast<unsigned int>(threads) - 1 - k : k;
    }
    if (seed > 1) {
        std::shuffle(blocks.begin(), blocks.end(), random);
    }
    block.kernel = kernel;
    block.args = args;
    block.failure = nullptr;
    for (const long long at : blocks) {
        blockIdx = {static_cast<unsigned int>(at % grid_x), static_cast<unsigned int>(at / grid_x), 0};
        std::fill(memory.begin(), memory.end(), POISON);
        shared.poison();
        block.run(static_cast<unsigned int>(threads), seed > 1, random);
        if (block.failure != nullptr) {
            return block.failure;
        }
    }
    return nullptr;
}

#endif
