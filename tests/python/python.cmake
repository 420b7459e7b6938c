# SPDX-License-Identifier: BSD-3-Clause
# Every tests/python/test_NAME.py is the ctest entry python/NAME: pytest in each rank of a job (run.sh).
file(GLOB python_tests CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/python/test_*.py)
set(names "")
foreach(source IN LISTS python_tests)
    cmake_path(GET source STEM name)
    string(REPLACE "test_" "python/" name ${name})
    list(APPEND names ${name})
    add_test(NAME ${name} COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/isolated.sh bash ${CMAKE_CURRENT_SOURCE_DIR}/python/run.sh ${source})
    br_test_properties(${name} python)
endforeach()
foreach(name IN LISTS names ITEMS python/install)
    set_property(TEST ${name} APPEND PROPERTY ENVIRONMENT BRAID_PEER_TIMEOUT=60 "BRAID_PYTHON=${python_executable}" "BRAID_PYTHON_WHY=${BRAID_PYTHON_WHY}")
endforeach()
