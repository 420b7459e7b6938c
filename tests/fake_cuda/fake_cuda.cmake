# SPDX-License-Identifier: BSD-3-Clause
# libbraid_fake_cuda.so: a CUDA driver over host memory (fake_cuda.h). Tests link it for its controls and load it, like any driver, by
# its path: BRAID_CUDA_LIBRARY.
file(GLOB fake_cuda_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/*.c)
list(FILTER fake_cuda_sources EXCLUDE REGEX "/(kernels_on_host|fresh)\\.c$")
add_library(br_host_kernels STATIC ${CMAKE_CURRENT_LIST_DIR}/kernels_on_host.c)
# Hidden: a test that has them and the library each use their own.
set_target_properties(br_host_kernels PROPERTIES C_VISIBILITY_PRESET hidden)
target_link_libraries(br_host_kernels PUBLIC m)
target_include_directories(br_host_kernels PUBLIC ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/include)
add_library(braid_fake_cuda SHARED ${fake_cuda_sources})
set_target_properties(braid_fake_cuda PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
target_include_directories(braid_fake_cuda PUBLIC ${CMAKE_SOURCE_DIR})
target_link_libraries(braid_fake_cuda PRIVATE br_host_kernels Threads::Threads)
target_compile_definitions(braid_fake_cuda INTERFACE
    FAKE_CUDA_LIBRARY="${CMAKE_BINARY_DIR}/tests/libbraid_fake_cuda.so")
add_library(br_fake_fresh STATIC ${CMAKE_CURRENT_LIST_DIR}/fresh.c)
target_link_libraries(br_fake_fresh PUBLIC braid_fake_cuda br_gpu PRIVATE PkgConfig::CMOCKA)
# tests/gpu/test_declarations.c compares our declarations with NVIDIA's where they are installed.
find_path(CUDA_HEADER cuda.h PATHS /usr/local/cuda/include)
