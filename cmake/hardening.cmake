# SPDX-License-Identifier: BSD-3-Clause
# Hardening of everything that is built without a sanitizer: braid parses what others send, in part as root.
# tests/lint/test_hardening.sh reads from the files built that all of it is there.
include(CheckCCompilerFlag)
include(CheckCSourceCompiles)
include(CheckPIESupported)

# Libraries and executables can be loaded at any address; objects are compiled for that by CMAKE_POSITION_INDEPENDENT_CODE.
check_pie_supported(LANGUAGES C)

# A canary in every function that has an array or takes the address of a local variable.
add_compile_options(-fstack-protector-strong)

# Addresses of functions are resolved at load time and are read-only from then on; the stack is not executable.
add_link_options(-Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack)

# Indirect jumps and returns are checked by processors that can do so.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|i.86)$")
    check_c_compiler_flag(-fcf-protection BRAID_HAS_CF_PROTECTION)
    if(BRAID_HAS_CF_PROTECTION)
        add_compile_options(-fcf-protection)
    endif()
endif()

# Calls of the C library that write into an object whose size the compiler knows are checked. Level 3 needs gcc 12 or clang 9, and
# glibc 2.34. All levels need an optimizing compiler. A distribution's own setting is replaced.
set(CMAKE_REQUIRED_FLAGS "-O2 -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3")
check_c_source_compiles("#include <stdio.h>
#if !defined(__USE_FORTIFY_LEVEL) || __USE_FORTIFY_LEVEL < 3
#error this compiler or C library has no level 3
#endif
int main(void) { return 0; }" BRAID_HAS_FORTIFY_3)
unset(CMAKE_REQUIRED_FLAGS)
set(level 2)
if(BRAID_HAS_FORTIFY_3)
    set(level 3)
endif()
add_compile_options("$<$<CONFIG:Release,RelWithDebInfo,MinSizeRel>:-U_FORTIFY_SOURCE;-D_FORTIFY_SOURCE=${level}>")
