# SPDX-License-Identifier: BSD-3-Clause
# The Python package braid (bindings/python), which `import braid` finds in <build>/python and after `cmake --install`. It needs a Python 3 with
# its headers and cffi, and is for every later one too (abi3). AUTO builds it where these are found; `braid info` says what came of it.
set(BRAID_PYTHON AUTO CACHE STRING "The Python package: AUTO, ON or OFF")
set_property(CACHE BRAID_PYTHON PROPERTY STRINGS AUTO ON OFF)
set(BRAID_PYTHON_EXECUTABLE "" CACHE FILEPATH "The Python to build the package with; default: /usr/bin/python3, else python3")
set(BRAID_PYTHON_SITE "" CACHE PATH "Where the package is installed, below the prefix; default: that Python's own folder for packages")
set(BRAID_PYTHON_BUILT "")
set(BRAID_PYTHON_WHY "BRAID_PYTHON is OFF")
if(BRAID_PYTHON STREQUAL "AUTO" AND BRAID_SANITIZE)
    set(BRAID_PYTHON_WHY "an interpreter cannot load a sanitized library")
elseif(BRAID_PYTHON)
    set(BRAID_PYTHON_WHY "no Python 3.9 or later with cffi and headers was found: apt-get install python3-cffi python3-dev")
    foreach(python IN ITEMS ${BRAID_PYTHON_EXECUTABLE} /usr/bin/python3 python3) # the system's looks below /usr/local
        execute_process(COMMAND ${python} -c "import cffi, os, sys, sysconfig as s
include = s.get_path('include')
assert os.path.exists(include + '/Python.h')
site = os.path.relpath(s.get_path('platlib', vars={'base': '/p', 'platbase': '/p', 'installed_base': '/p'}), '/p')
print(sys.executable, include, site.removeprefix('local/'), '%d.%d' % sys.version_info[:2], sep=';', end='')"
            RESULT_VARIABLE rc OUTPUT_VARIABLE found ERROR_QUIET)
        if(rc EQUAL 0)
            list(GET found 0 python_executable)
            list(GET found 1 python_include)
            list(GET found 2 python_site)
            list(GET found 3 BRAID_PYTHON_BUILT)
            break()
        endif()
    endforeach()
    if(NOT BRAID_PYTHON_BUILT AND NOT BRAID_PYTHON STREQUAL "AUTO")
        message(FATAL_ERROR "BRAID_PYTHON: ${BRAID_PYTHON_WHY}; or name one: BRAID_PYTHON_EXECUTABLE")
    endif()
endif()
if(BRAID_PYTHON_BUILT)
    set(BRAID_PYTHON_WHY "")
    message(STATUS "Python package: by ${python_executable}, ${BRAID_PYTHON_BUILT}")
else()
    message(STATUS "No Python package: ${BRAID_PYTHON_WHY}")
endif()

function(br_add_python)
    set(folder ${CMAKE_SOURCE_DIR}/bindings/python)
    set(package ${CMAKE_BINARY_DIR}/python/braid)
    file(GLOB headers CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/include/braid/*.h)
    file(GLOB modules CONFIGURE_DEPENDS ${folder}/braid/*.py ${folder}/braid/py.typed)
    add_custom_command(OUTPUT ${CMAKE_BINARY_DIR}/_braid.c
        COMMAND ${python_executable} ${folder}/build.py ${CMAKE_C_COMPILER} ${CMAKE_SOURCE_DIR}/include ${CMAKE_BINARY_DIR}/_braid.c
        DEPENDS ${folder}/build.py ${folder}/native.c ${headers} VERBATIM)
    add_library(braid_python MODULE ${CMAKE_BINARY_DIR}/_braid.c)
    set_source_files_properties(${CMAKE_BINARY_DIR}/_braid.c PROPERTIES COMPILE_OPTIONS "-w;-fno-strict-aliasing") # cffi's, not ours
    target_include_directories(braid_python SYSTEM PRIVATE ${python_include})
    target_link_libraries(braid_python PRIVATE braid_shared)
    file(RELATIVE_PATH to_library /p/${BRAID_PYTHON_SITE}/braid /p/${CMAKE_INSTALL_LIBDIR})
    set_target_properties(braid_python PROPERTIES PREFIX "" OUTPUT_NAME _braid SUFFIX .abi3.so LIBRARY_OUTPUT_DIRECTORY ${package}
        INSTALL_RPATH "$ORIGIN;$ORIGIN/${to_library}") # beside it in a wheel, else in the prefix
    # In the build tree the sources themselves are the package, so that an edited file needs no build.
    foreach(module IN LISTS modules)
        cmake_path(GET module FILENAME name)
        file(CREATE_LINK ${module} ${package}/${name} SYMBOLIC)
    endforeach()
    install(TARGETS braid_python LIBRARY DESTINATION ${BRAID_PYTHON_SITE}/braid COMPONENT python)
    install(FILES ${modules} DESTINATION ${BRAID_PYTHON_SITE}/braid COMPONENT python)
endfunction()
if(BRAID_PYTHON_BUILT)
    if(NOT BRAID_PYTHON_SITE)
        set(BRAID_PYTHON_SITE ${python_site})
    endif()
    file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/python/braid)
    br_add_python()
endif()
# What `braid info` says.
set_source_files_properties(${CMAKE_SOURCE_DIR}/tools/info/bindings.c PROPERTIES COMPILE_DEFINITIONS
    "BRAID_PYTHON_BUILT=\"${BRAID_PYTHON_BUILT}\";BRAID_PYTHON_FOLDER=\"${BRAID_PYTHON_SITE}/braid\";BRAID_PYTHON_WHY_NOT=\"${BRAID_PYTHON_WHY}\"")
