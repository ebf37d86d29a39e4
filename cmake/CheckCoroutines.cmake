# SPDX-FileCopyrightText: 2026 The QDistLock developers
# SPDX-License-Identifier: MIT

# QDISTLOCK_HAVE_COROUTINES: compiler and standard library support C++20 coroutines. The library itself does not need
# them; <QDistLock/Coroutines>, its tests and its example do.

include(CheckCXXSourceCompiles)
include(CMakePushCheckState)

cmake_push_check_state()
string(APPEND CMAKE_REQUIRED_FLAGS " ${CMAKE_CXX20_STANDARD_COMPILE_OPTION}")
check_cxx_source_compiles("
    #include <coroutine>
    #ifndef __cpp_impl_coroutine
    #error
    #endif
    int main() { return std::suspend_never().await_ready() ? 0 : 1; }
    " QDISTLOCK_HAVE_COROUTINES)
cmake_pop_check_state()
