// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// Runs a fuzz target on files, without libFuzzer, so that any compiler will do. Arguments: files and folders. Each file
// is run, and each of its beginnings, as if a connection had ended or a user had stopped writing there.

#include "fuzz.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace {

constexpr size_t LongestWithBeginnings = 1024;

std::vector<std::filesystem::path> filesOf(int argc, char **argv)
{
    std::vector<std::filesystem::path> files;
    for (int i = 1; i < argc; ++i) {
        if (std::filesystem::is_directory(argv[i])) {
            for (const auto &entry : std::filesystem::directory_iterator(argv[i]))
                files.push_back(entry.path());
        } else {
            files.emplace_back(argv[i]);
        }
    }
    std::sort(files.begin(), files.end());
    return files;
}

void run(const std::string &bytes, size_t size)
{
    // A buffer of the exact size, so that AddressSanitizer reports a read beyond its end.
    const std::vector<uint8_t> input(bytes.begin(), bytes.begin() + std::ptrdiff_t(size));
    LLVMFuzzerTestOneInput(input.data(), input.size());
}

} // namespace

#ifdef __GNUC__
__attribute__((weak))
#endif
int LLVMFuzzerInitialize(int *, char ***)
{
    return 0;
}

int main(int argc, char **argv)
{
    LLVMFuzzerInitialize(&argc, &argv);
    const auto files = filesOf(argc, argv);
    for (const auto &file : files) {
        std::fprintf(stderr, "%s\n", file.c_str()); // before the run: the last one named is the culprit
        std::ifstream stream(file, std::ios::binary);
        if (!stream) {
            std::fprintf(stderr, "cannot be read\n");
            return 1;
        }
        const std::string bytes{std::istreambuf_iterator<char>(stream), {}};
        run(bytes, bytes.size());
        if (bytes.size() <= LongestWithBeginnings) {
            for (size_t size = 0; size < bytes.size(); ++size)
                run(bytes, size);
        }
    }
    if (files.empty()) {
        std::fprintf(stderr, "no inputs\n");
        return 1;
    }
    std::printf("%zu inputs\n", files.size());
    return 0;
}
