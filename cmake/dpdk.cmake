# SPDX-License-Identifier: BSD-3-Clause
# braid_dpdk.so: the part of transport/dpdk/ that is linked with DPDK (transport/dpdk/module.h says why it is a part of its own).
# Without DPDK's headers it is left out, and `braid info` says so.
option(BRAID_DPDK "The module for DPDK, where libdpdk-dev is installed" ON)
if(BRAID_FUZZ)
    set(BRAID_DPDK OFF) # nothing there is fuzzed that needs it
endif()
if(BRAID_DPDK)
    pkg_check_modules(DPDK QUIET libdpdk>=21.11)
    if(NOT DPDK_FOUND)
        message(STATUS "No DPDK: libdpdk-dev is not installed")
        set(BRAID_DPDK OFF)
    endif()
endif()
# Of the many libraries that libdpdk names only these; drivers are loaded by DPDK itself.
function(br_use_dpdk target)
    target_include_directories(${target} SYSTEM PRIVATE ${DPDK_INCLUDE_DIRS})
    target_compile_options(${target} PRIVATE ${DPDK_CFLAGS_OTHER})
    target_link_directories(${target} PRIVATE ${DPDK_LIBRARY_DIRS})
    target_link_libraries(${target} PRIVATE rte_ethdev rte_mbuf rte_mempool rte_ring rte_eal Threads::Threads)
endfunction()
if(BRAID_DPDK)
    file(GLOB dpdk_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/transport/dpdk/module/*.c)
    add_library(braid_dpdk MODULE ${dpdk_sources} ${CMAKE_SOURCE_DIR}/base/thread.c)
    set_target_properties(braid_dpdk PROPERTIES PREFIX "" C_VISIBILITY_PRESET hidden
        LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
    target_include_directories(braid_dpdk PRIVATE ${CMAKE_SOURCE_DIR})
    br_use_dpdk(braid_dpdk)
    install(TARGETS braid_dpdk LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/braid)
endif()
