# SPDX-License-Identifier: BSD-3-Clause
# braid_pmix.so: the part of protocol/bootstrap/pmix/ that is linked with libpmix (module.h there says why it is a part of its own).
# AUTO builds it where libpmix-dev is installed; ON fails without it. Where it is missing, `braid info` says so.
set(BRAID_PMIX AUTO CACHE STRING "The module for launchers with PMIx: AUTO, ON or OFF")
set_property(CACHE BRAID_PMIX PROPERTY STRINGS AUTO ON OFF)
set(required QUIET)
if(BRAID_PMIX AND NOT BRAID_PMIX STREQUAL "AUTO")
    set(required REQUIRED)
endif()
set(PMIX_FOUND OFF)
if(BRAID_PMIX AND NOT BRAID_FUZZ) # nothing there is fuzzed that needs it
    pkg_check_modules(PMIX ${required} pmix>=3.1)
    if(NOT PMIX_FOUND)
        message(STATUS "No PMIx: libpmix-dev is not installed")
    endif()
endif()
if(PMIX_FOUND)
    file(GLOB pmix_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/protocol/bootstrap/pmix/module/*.c)
    add_library(braid_pmix MODULE ${pmix_sources} ${CMAKE_SOURCE_DIR}/base/thread.c)
    set_target_properties(braid_pmix PROPERTIES PREFIX "" C_VISIBILITY_PRESET hidden
        LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
    target_include_directories(braid_pmix PRIVATE ${CMAKE_SOURCE_DIR})
    target_include_directories(braid_pmix SYSTEM PRIVATE ${PMIX_INCLUDE_DIRS})
    target_link_directories(braid_pmix PRIVATE ${PMIX_LIBRARY_DIRS})
    target_link_libraries(braid_pmix PRIVATE ${PMIX_LIBRARIES} Threads::Threads)
    install(TARGETS braid_pmix LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/braid)
endif()
