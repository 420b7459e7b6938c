# SPDX-License-Identifier: BSD-3-Clause
# br_folder(NAME [LIBS ...]): static library br_NAME from every .c below NAME/, linked with the folders declared
# before it. A folder without sources declares nothing.
set(BR_FOLDERS "")
function(br_folder name)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "LIBS")
    file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${name}/*.c)
    br_filter_verbs(sources)
    list(FILTER sources EXCLUDE REGEX "/(dpdk|pmix)/module/") # see dpdk.cmake, pmix.cmake
    if(NOT sources)
        return()
    endif()
    add_library(br_${name} STATIC ${sources})
    target_include_directories(br_${name} PUBLIC ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/include)
    list(REVERSE BR_FOLDERS)
    target_link_libraries(br_${name} PUBLIC ${BR_FOLDERS} ${arg_LIBS})
    list(REVERSE BR_FOLDERS)
    set(BR_FOLDERS ${BR_FOLDERS} br_${name} PARENT_SCOPE)
endfunction()
