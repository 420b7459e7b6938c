# SPDX-License-Identifier: BSD-3-Clause
# libbraid.so and libbraid.a from the objects of all folders. What is public is decided by braid.map alone.
set(objects "")
set(externals PkgConfig::URING PkgConfig::SODIUM PkgConfig::NUMA PkgConfig::YAML PkgConfig::CJSON Threads::Threads ${CMAKE_DL_LIBS} m)
foreach(folder IN LISTS BR_FOLDERS)
    list(APPEND objects $<TARGET_OBJECTS:${folder}>)
endforeach()

add_library(braid_shared SHARED ${objects})
# nodelete: dlclose() leaves the library where it is. Each loading anew would take a few more of the 1024 keys that a process has for memory of its threads
# (br_thread_block() in base/thread.c), which nothing gives back.
target_link_options(braid_shared PRIVATE -Wl,--version-script=${BRAID_VERSION_SCRIPT} -Wl,-z,nodelete)
set_target_properties(braid_shared PROPERTIES LINK_DEPENDS ${BRAID_VERSION_SCRIPT}
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR} EXPORT_NAME braid)
add_library(braid_static STATIC ${objects})
set_target_properties(braid_static PROPERTIES EXPORT_NAME braid_static)
foreach(library braid_shared braid_static)
    set_target_properties(${library} PROPERTIES OUTPUT_NAME braid LINKER_LANGUAGE C)
    target_link_libraries(${library} PRIVATE ${externals})
    target_include_directories(${library} INTERFACE
        $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
endforeach()
