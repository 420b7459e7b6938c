# SPDX-License-Identifier: BSD-3-Clause
# Every tests/torch/test_NAME.py is the ctest entry torch/NAME, run as run.sh says.
file(GLOB torch_tests CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/torch/test_*.py)
foreach(source IN LISTS torch_tests)
    cmake_path(GET source STEM name)
    string(REPLACE "test_" "torch/" name ${name})
    add_test(NAME ${name} COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/isolated.sh bash ${CMAKE_CURRENT_SOURCE_DIR}/torch/run.sh ${source})
    br_test_properties(${name} torch)
    set_property(TEST ${name} APPEND PROPERTY ENVIRONMENT BRAID_PEER_TIMEOUT=60 "BRAID_TORCH_PYTHON=${torch_python}" "BRAID_TORCH_WHY=${BRAID_TORCH_WHY}")
endforeach()
