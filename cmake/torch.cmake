# SPDX-License-Identifier: BSD-3-Clause
# braid.torch (bindings/torch): the backend "braid" of torch.distributed. It needs the Python package (python.cmake), a C++ compiler, and a Python with torch and
# torch's headers, which pip's packages have; the module is for that torch's minor version alone. AUTO builds it where these are found.
set(BRAID_TORCH AUTO CACHE STRING "The backend for PyTorch: AUTO, ON or OFF")
set_property(CACHE BRAID_TORCH PROPERTY STRINGS AUTO ON OFF)
set(BRAID_TORCH_PYTHON AUTO CACHE STRING "The Python whose torch it is for; AUTO: the one of the Python package")
set(BRAID_TORCH_BUILT "")
set(BRAID_TORCH_WHY "BRAID_TORCH is OFF")
if(BRAID_TORCH STREQUAL "AUTO" AND NOT BRAID_PYTHON_BUILT)
    set(BRAID_TORCH_WHY "there is no Python package")
elseif(BRAID_TORCH)
    set(torch_python ${BRAID_TORCH_PYTHON})
    if(torch_python STREQUAL "AUTO")
        set(torch_python ${python_executable})
    endif()
    set(BRAID_TORCH_WHY "${torch_python} has no torch with headers: name a Python that has by BRAID_TORCH_PYTHON")
    # find_spec first: most Pythons have none, and importing it takes seconds. Includes, libraries and definitions are what torch's own builder of extensions uses.
    execute_process(COMMAND ${torch_python} -c "import importlib.util as u, os, sys, sysconfig
folder = os.path.dirname(u.find_spec('torch').origin)
assert os.path.exists(folder + '/include/torch/csrc/distributed/c10d/Backend.hpp')
import torch
assert torch.distributed.is_available()
path = [folder + '/include', folder + '/include/torch/csrc/api/include', sysconfig.get_path('include')]
abi = ['PYBIND11_%s=\"%s\"' % (n, getattr(torch._C, '_PYBIND11_' + n)) for n in ('COMPILER_TYPE', 'STDLIB', 'BUILD_ABI') if getattr(torch._C, '_PYBIND11_' + n, None)]
standard = 20 if tuple(map(int, torch.__version__.split('.')[:2])) >= (2, 10) else 17
print(torch.__version__, folder + '/lib', standard, '|'.join(path), '|'.join(abi + ['_GLIBCXX_USE_CXX11_ABI=%d' % torch._C._GLIBCXX_USE_CXX11_ABI]), sep=';', end='')"
        RESULT_VARIABLE rc OUTPUT_VARIABLE found ERROR_QUIET)
    include(CheckLanguage)
    check_language(CXX)
    if(rc EQUAL 0 AND CMAKE_CXX_COMPILER)
        list(POP_FRONT found BRAID_TORCH_BUILT torch_libraries torch_standard torch_includes torch_definitions)
        string(REPLACE "|" ";" torch_includes "${torch_includes}")
        string(REPLACE "|" ";" torch_definitions "${torch_definitions}")
        set(BRAID_TORCH_WHY "")
    elseif(rc EQUAL 0)
        set(BRAID_TORCH_WHY "there is no C++ compiler")
    endif()
endif()
if(NOT BRAID_TORCH_BUILT)
    set(torch_python "")
endif()
if(BRAID_TORCH_BUILT)
    message(STATUS "PyTorch backend: for torch ${BRAID_TORCH_BUILT} of ${torch_python}")
elseif(BRAID_TORCH AND NOT BRAID_TORCH STREQUAL "AUTO")
    message(FATAL_ERROR "BRAID_TORCH: ${BRAID_TORCH_WHY}")
else()
    message(STATUS "No PyTorch backend: ${BRAID_TORCH_WHY}")
endif()

function(br_add_torch)
    set(folder ${CMAKE_SOURCE_DIR}/bindings/torch)
    set(package ${CMAKE_BINARY_DIR}/python/braid/torch)
    file(GLOB sources CONFIGURE_DEPENDS ${folder}/*.cpp)
    file(GLOB modules CONFIGURE_DEPENDS ${folder}/braid/torch/*.py)
    add_library(braid_torch MODULE ${sources})
    # Ours as well: C++ warns of functions that hide the constructor of the struct with their name.
    target_include_directories(braid_torch SYSTEM PRIVATE ${CMAKE_SOURCE_DIR}/include ${torch_includes})
    target_compile_definitions(braid_torch PRIVATE ${torch_definitions})
    foreach(library c10 torch torch_cpu torch_python)
        target_link_libraries(braid_torch PRIVATE ${torch_libraries}/lib${library}.so)
    endforeach()
    target_link_libraries(braid_torch PRIVATE braid_shared Threads::Threads)
    file(RELATIVE_PATH to_library /p/${BRAID_PYTHON_SITE}/braid/torch /p/${CMAKE_INSTALL_LIBDIR})
    # torch's libraries are loaded by `import torch`, which comes before; braid's lies beside the Python package, or in the prefix.
    set_target_properties(braid_torch PROPERTIES PREFIX "" OUTPUT_NAME _native LIBRARY_OUTPUT_DIRECTORY ${package}
        CXX_STANDARD ${torch_standard} CXX_STANDARD_REQUIRED ON CXX_VISIBILITY_PRESET hidden
        UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 0 # torch's headers take the most of the time
        INSTALL_RPATH "$ORIGIN/..;$ORIGIN/${to_library}")
    file(MAKE_DIRECTORY ${package})
    foreach(module IN LISTS modules)
        cmake_path(GET module FILENAME name)
        file(CREATE_LINK ${module} ${package}/${name} SYMBOLIC)
    endforeach()
    if(TARGET braid_python)
        add_dependencies(braid_torch braid_python)
    endif()
    install(TARGETS braid_torch LIBRARY DESTINATION ${BRAID_PYTHON_SITE}/braid/torch COMPONENT torch)
    install(FILES ${modules} DESTINATION ${BRAID_PYTHON_SITE}/braid/torch COMPONENT torch)
    # What a distribution's folder says: by its entry points torch finds the backend without an import in the script. In the build tree, too.
    set(distribution braid_torch-${PROJECT_VERSION}.dist-info)
    file(WRITE ${CMAKE_BINARY_DIR}/python/${distribution}/METADATA "Metadata-Version: 2.1\nName: braid-torch\nVersion: ${PROJECT_VERSION}\n")
    configure_file(${folder}/entry_points.txt ${CMAKE_BINARY_DIR}/python/${distribution}/entry_points.txt COPYONLY)
    file(CREATE_LINK ${folder}/_braid_torch.py ${CMAKE_BINARY_DIR}/python/_braid_torch.py SYMBOLIC)
    install(DIRECTORY ${CMAKE_BINARY_DIR}/python/${distribution} DESTINATION ${BRAID_PYTHON_SITE} COMPONENT torch)
    install(FILES ${folder}/_braid_torch.py DESTINATION ${BRAID_PYTHON_SITE} COMPONENT torch)
endfunction()
if(BRAID_TORCH_BUILT)
    enable_language(CXX)
    br_add_torch()
endif()
# What `braid info` says.
set_property(SOURCE ${CMAKE_SOURCE_DIR}/tools/info/bindings.c APPEND PROPERTY COMPILE_DEFINITIONS
    BRAID_TORCH_BUILT="${BRAID_TORCH_BUILT}" BRAID_TORCH_FOLDER="${BRAID_PYTHON_SITE}/braid/torch" BRAID_TORCH_WHY_NOT="${BRAID_TORCH_WHY}")
