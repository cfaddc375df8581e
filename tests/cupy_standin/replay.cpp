// Repeat recorded launches with a thread for each CUDA thread, and arrays that are allocations of
// their own: for the sanitizers. Compiled with REPLAYED, cuda_on_fibers.h and the kernels' source
// included before.

#include <dlfcn.h>

#include <fstream>
#include <iostream>
#include <string>

int main(int count, char **paths) {
    for (int file = 1; file < count; ++file) {
        std::ifstream in(paths[file], std::ios::binary);
        std::string name, kind;
        long long grid_x, grid_y, threads, shared;
        size_t n_args, n_arrays;
        in >> name >> grid_x >> grid_y >> threads >> shared >> n_args >> n_arrays;
        std::vector<std::pair<long long, long long>> args(n_args);  // array and place, or number
        for (auto &[array, value] : args) {
            array = -1;
            in >> kind;
            if (kind == "array") {
                in >> array;
            }
            in >> value;
        }
        std::vector<std::vector<char>> arrays(n_arrays);
        std::vector<size_t> sizes(n_arrays);
        for (size_t &size : sizes) {
            in >> size;
        }
        in.get();  // the end of the line
        for (size_t k = 0; k < n_arrays; ++k) {
            arrays[k].resize(sizes[k]);
            in.read(arrays[k].data(), static_cast<std::streamsize>(sizes[k]));
        }
        Word words[MAX_ARGUMENTS] = {};
        for (size_t k = 0; k < n_args; ++k) {
            const auto [array, value] = args[k];
            words[k] = array < 0 ? value : reinterpret_cast<Word>(arrays[array].data() + value);
        }
        const auto kernel = reinterpret_cast<Kernel>(dlsym(RTLD_DEFAULT, name.c_str()));
        if (!in || kernel == nullptr) {
            std::cerr << paths[file] << ": no launch of a kernel of this source\n";
            return 2;
        }
        const Dimensions grid{static_cast<unsigned int>(grid_x), static_cast<unsigned int>(grid_y), 1};
        launch_threads(kernel, grid, static_cast<unsigned int>(threads), shared, words);
    }
    std::cout << count - 1 << " launches\n";
}
