# SPDX-License-Identifier: BSD-3-Clause
# What `cmake --install` puts where: libraries, headers, braid.pc, the CMake package and the command.
include(CMakePackageConfigHelpers)
install(TARGETS braid_shared braid_static EXPORT braid
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET braid_tool)
    install(TARGETS braid_tool RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
if(EXISTS ${CMAKE_SOURCE_DIR}/include/braid)
    install(DIRECTORY include/braid DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
endif()
install(DIRECTORY data/models tools/wireshark DESTINATION ${CMAKE_INSTALL_DATADIR}/braid)
install(EXPORT braid NAMESPACE braid:: FILE braidTargets.cmake DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/braid)

configure_package_config_file(cmake/braidConfig.cmake.in ${CMAKE_BINARY_DIR}/braidConfig.cmake
    INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/braid)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/braidConfigVersion.cmake COMPATIBILITY SameMajorVersion)
install(FILES ${CMAKE_BINARY_DIR}/braidConfig.cmake ${CMAKE_BINARY_DIR}/braidConfigVersion.cmake
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/braid)

# Relocatable: the prefix is told from where braid.pc lies.
file(RELATIVE_PATH PC_PREFIX /p/${CMAKE_INSTALL_LIBDIR}/pkgconfig /p)
string(REGEX REPLACE "/$" "" PC_PREFIX ${PC_PREFIX})
configure_file(cmake/braid.pc.in ${CMAKE_BINARY_DIR}/braid.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/braid.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
