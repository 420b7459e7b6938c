# SPDX-License-Identifier: BSD-3-Clause
# Flags of every translation unit. _GNU_SOURCE is empty so that a source may repeat the plain #define.
add_compile_definitions($<$<COMPILE_LANGUAGE:C>:_GNU_SOURCE=>) # g++ defines it itself
add_compile_options(-Wall -Wextra -Wshadow -Wconversion -fno-semantic-interposition -fno-omit-frame-pointer)
if(BRAID_WERROR)
    add_compile_options(-Werror)
endif()
if(BRAID_SANITIZE)
    add_compile_options(-fsanitize=${BRAID_SANITIZE} -fno-sanitize-recover=all)
    if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
        # With its own code in between gcc loses track of values; its manual says so. The release build warns.
        add_compile_options(-Wno-maybe-uninitialized -Wno-format-truncation -Wno-stringop-overflow)
    endif()
    add_link_options(-fsanitize=${BRAID_SANITIZE})
    if(BRAID_SANITIZE MATCHES "thread" AND CMAKE_C_COMPILER_ID STREQUAL "GNU")
        # shm fences order what two processes do to one page; within a process a lock stands around all of it.
        add_compile_options(-Wno-tsan)
    endif()
else()
    add_compile_options(-fno-plt)
    include(cmake/hardening.cmake)
endif()
if(BRAID_FUZZ)
    if(NOT CMAKE_C_COMPILER_ID STREQUAL "Clang")
        message(FATAL_ERROR "BRAID_FUZZ needs clang; configure with: cmake --preset fuzz")
    endif()
    add_compile_options(-fsanitize=fuzzer-no-link)
endif()
# Formulas that promise their bits (training/parameters/update.h): no fused multiply-add, and vectors, which -O2 does not always use.
set_source_files_properties(training/parameters/update.c PROPERTIES COMPILE_OPTIONS "-O3;-ffp-contract=off")
# Plain loops that are much faster as vectors.
set_source_files_properties(tools/train/network.c PROPERTIES COMPILE_OPTIONS "-O3")
# The same bits on every processor, products of complex numbers included.
set_source_files_properties(collectives/engine/reduce_scalar.c PROPERTIES COMPILE_OPTIONS "-ffp-contract=off")
