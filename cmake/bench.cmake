# SPDX-License-Identifier: BSD-3-Clause
# One executable for each bench/*.c, in <build>/bench/. Drivers of other libraries stand in sub-folders and are built
# by the scripts that need them.
file(GLOB bench_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/bench/*.c)
if(NOT BRAID_VERBS)
    list(FILTER bench_sources EXCLUDE REGEX "/verbs_[a-z]+\\.c$")
endif()
if(NOT BRAID_DPDK)
    list(FILTER bench_sources EXCLUDE REGEX "/dpdk_[a-z]+\\.c$")
endif()
foreach(source IN LISTS bench_sources)
    cmake_path(GET source STEM name)
    add_executable(bench_${name} ${source})
    set_target_properties(bench_${name} PROPERTIES OUTPUT_NAME ${name}
        RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bench)
    target_link_libraries(bench_${name} PRIVATE ${BR_ALL})
endforeach()
if(TARGET bench_dpdk_bare)
    br_use_dpdk(bench_dpdk_bare)
endif()
