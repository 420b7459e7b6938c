# SPDX-License-Identifier: BSD-3-Clause
# Every tests/torch/test_NAME.py is the ctest entry torch/NAME, and PyTorch's own suite is one for each number of ranks; run.sh runs them.
function(br_torch_test_environment name)
    set(python "")
    if(BRAID_TORCH_BUILT)
        set(python ${torch_python})
    endif()
    set_property(TEST torch/${name} APPEND PROPERTY ENVIRONMENT BRAID_PEER_TIMEOUT=60 "BRAID_TORCH_PYTHON=${python}" "BRAID_TORCH_WHY=${BRAID_TORCH_WHY}"
        BRAID_FAKE_DEVICE=${CMAKE_BINARY_DIR}/tests/torch_fake_device.so)
endfunction()
function(br_add_torch_test name)
    add_test(NAME torch/${name} COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/isolated.sh bash ${CMAKE_CURRENT_SOURCE_DIR}/torch/run.sh ${ARGN})
    br_test_properties(torch/${name} torch)
    br_torch_test_environment(${name})
endfunction()

# CUDA tensors without a GPU.
if(BRAID_TORCH_BUILT)
    add_library(torch_fake_device MODULE ${CMAKE_CURRENT_SOURCE_DIR}/torch/fake_device.cpp)
    target_include_directories(torch_fake_device SYSTEM PRIVATE ${torch_includes})
    target_compile_definitions(torch_fake_device PRIVATE ${torch_definitions})
    target_link_libraries(torch_fake_device PRIVATE braid_fake_cuda ${torch_libraries}/libc10.so ${torch_libraries}/libtorch_cpu.so)
    target_compile_options(torch_fake_device PRIVATE -Wno-shadow) # C++ warns of functions that have the name of a struct
    set_target_properties(torch_fake_device PROPERTIES PREFIX "" CXX_STANDARD ${torch_standard} CXX_STANDARD_REQUIRED ON
        LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
endif()

file(GLOB torch_tests CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/torch/test_*.py)
foreach(source IN LISTS torch_tests)
    cmake_path(GET source STEM name)
    string(REPLACE "test_" "" name ${name})
    br_add_torch_test(${name} ${source})
endforeach()
foreach(ranks RANGE 2 4)
    br_add_torch_test(suite_${ranks} ${CMAKE_CURRENT_SOURCE_DIR}/torch/suite.py ${ranks})
endforeach()
br_torch_test_environment(install) # test_install.sh
