# SPDX-License-Identifier: BSD-3-Clause
# Everything that braid cannot be built without. `./dev` installs the packages on Debian.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
pkg_check_modules(URING REQUIRED IMPORTED_TARGET liburing>=2.3)
pkg_check_modules(SODIUM REQUIRED IMPORTED_TARGET libsodium)
pkg_check_modules(NUMA REQUIRED IMPORTED_TARGET numa)
pkg_check_modules(CJSON REQUIRED IMPORTED_TARGET libcjson)
pkg_check_modules(YAML REQUIRED IMPORTED_TARGET yaml-0.1)
pkg_check_modules(XXHASH REQUIRED libxxhash) # its header alone
pkg_check_modules(NETLINK REQUIRED IMPORTED_TARGET libnl-route-3.0)
pkg_check_modules(POPT REQUIRED IMPORTED_TARGET popt) # the command `braid` and bench alone
if(BUILD_TESTING)
    pkg_check_modules(CMOCKA REQUIRED IMPORTED_TARGET cmocka)
endif()

# RDMA devices: headers alone, the libraries are loaded when a process first needs them. Without them braid builds all the same,
# and `braid info` names the packages.
option(BRAID_VERBS "The verbs back end, where libibverbs-dev and librdmacm-dev are installed" ON)
if(BRAID_VERBS)
    pkg_check_modules(VERBS QUIET libibverbs librdmacm)
    if(VERBS_FOUND)
        include_directories(SYSTEM ${VERBS_INCLUDE_DIRS})
        add_compile_definitions(BRAID_VERBS)
    else()
        message(STATUS "No verbs back end: libibverbs-dev or librdmacm-dev is not installed")
        set(BRAID_VERBS OFF)
    endif()
endif()
# What of transport/verbs/ can do without those headers; everything else there, and its tests, needs them.
set(BR_VERBS_PLAIN "gid|surroundings|trouble|probe|offer")
function(br_filter_verbs list_name)
    set(kept "")
    foreach(source IN LISTS ${list_name})
        if(BRAID_VERBS OR NOT source MATCHES "/transport/verbs/" OR source MATCHES "/(test_)?(${BR_VERBS_PLAIN})\\.c$")
            list(APPEND kept ${source})
        endif()
    endforeach()
    set(${list_name} ${kept} PARENT_SCOPE)
endfunction()

# How far NICs are from GPUs, for `braid info` (tools/info/nic_affinity.c), which without it says what to install.
option(BRAID_HWLOC "Distances of NICs from GPUs, where libhwloc-dev is installed" ON)
if(BRAID_HWLOC)
    pkg_check_modules(HWLOC QUIET IMPORTED_TARGET hwloc>=2.1)
    if(NOT HWLOC_FOUND)
        message(STATUS "No distances of NICs from GPUs: libhwloc-dev is not installed")
        set(BRAID_HWLOC OFF)
    endif()
endif()
