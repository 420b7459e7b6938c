# SPDX-License-Identifier: BSD-3-Clause
# The command `braid`: tools/main.c holds main(), every other tools/*.c is a sub-command or a part of one and is in
# br_tools, so that tests can link it.
file(GLOB_RECURSE tool_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tools/*.c)
set(tool_main ${CMAKE_SOURCE_DIR}/tools/main.c)
list(REMOVE_ITEM tool_sources ${tool_main})
set(BR_ALL ${BR_FOLDERS})
list(REVERSE BR_ALL) # users first, as the linker wants it
# What `braid plan` says of schedules without running them; tests of collectives/ use it, too.
set(schedule_sources ${CMAKE_SOURCE_DIR}/tools/plan/matching.c ${CMAKE_SOURCE_DIR}/tools/plan/show.c ${CMAKE_SOURCE_DIR}/tools/plan/timing.c)
list(REMOVE_ITEM tool_sources ${schedule_sources})
add_library(br_plan STATIC ${schedule_sources})
target_link_libraries(br_plan PUBLIC ${BR_ALL} m)
if(tool_sources)
    add_library(br_tools STATIC ${tool_sources})
    target_link_libraries(br_tools PUBLIC br_plan ${BR_ALL} PkgConfig::CJSON PkgConfig::NETLINK PkgConfig::POPT m)
    if(BRAID_HWLOC)
        target_link_libraries(br_tools PUBLIC PkgConfig::HWLOC)
        set_source_files_properties(${CMAKE_SOURCE_DIR}/tools/info/nic_affinity.c PROPERTIES COMPILE_DEFINITIONS BRAID_HWLOC)
    endif()
    list(PREPEND BR_ALL br_tools)
endif()
if(EXISTS ${tool_main})
    add_executable(braid_tool ${tool_main})
    set_target_properties(braid_tool PROPERTIES OUTPUT_NAME braid)
    target_link_libraries(braid_tool PRIVATE ${BR_ALL})
endif()
