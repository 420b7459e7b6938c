# SPDX-License-Identifier: BSD-3-Clause
# Everything that braid cannot be built without. `./dev` installs the packages on Debian.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
pkg_check_modules(URING REQUIRED IMPORTED_TARGET liburing>=2.3)
pkg_check_modules(SODIUM REQUIRED IMPORTED_TARGET libsodium)
pkg_check_modules(NUMA REQUIRED IMPORTED_TARGET numa)
pkg_check_modules(CJSON REQUIRED IMPORTED_TARGET libcjson)
pkg_check_modules(YAML REQUIRED IMPORTED_TARGET yaml-0.1)
pkg_check_modules(NETLINK REQUIRED IMPORTED_TARGET libnl-route-3.0)
if(BUILD_TESTING)
    pkg_check_modules(CMOCKA REQUIRED IMPORTED_TARGET cmocka)
endif()
