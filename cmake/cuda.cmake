# SPDX-License-Identifier: BSD-3-Clause
# The image of the reduction kernels (gpu/reduce.cu), embedded by gpu/image.c. Nothing else needs the CUDA toolkit; without it all else builds,
# and `braid info` says what is missing. Of the architectures wanted, those that the nvcc found still or already knows;
# and PTX of the oldest of them, which drivers compile for GPUs that have no machine code here.
option(BRAID_GPU_KERNELS "Reduction kernels for NVIDIA GPUs, where nvcc is found" ON)
set(BRAID_GPU_ARCHITECTURES "70;75;80;90;100;120" CACHE STRING "Compute capabilities (times 10) with machine code of their own")

# br_gpu_compiles(RESULT ARCHITECTURE FLAGS...): whether nvcc finds all that it needs, a C++ compiler above all, and knows what we use: the
# flags, and __grid_constant__ (CUDA 11.7, from sm_70 on).
function(br_gpu_compiles result arch)
    set(probe ${CMAKE_BINARY_DIR}/gpu/probe)
    file(WRITE ${probe}.cu "#include <cuda_fp16.h>
struct s { __half *p; };
__global__ void probe(const __grid_constant__ struct s s) { *s.p = __float2half_rn(1); }
")
    execute_process(COMMAND ${BRAID_NVCC} ${ARGN} -cubin -arch=sm_${arch} ${probe}.cu -o ${probe}.cubin
        RESULT_VARIABLE failed OUTPUT_VARIABLE words ERROR_VARIABLE words)
    if(failed)
        message(STATUS "No reduction kernels for GPUs: ${BRAID_NVCC} fails: ${words}")
        set(${result} OFF PARENT_SCOPE)
    else()
        set(${result} ON PARENT_SCOPE)
    endif()
endfunction()

# br_gpu_image(): the rules that make build/gpu/reduce.fatbin, and gpu/image.c told where it lies.
function(br_gpu_image)
    set(folder ${CMAKE_BINARY_DIR}/gpu)
    set(flags -O3 --fmad=false -Xptxas=--warn-on-spills,--warn-on-local-memory-usage -I${CMAKE_SOURCE_DIR} -I${CMAKE_SOURCE_DIR}/include)
    execute_process(COMMAND ${BRAID_NVCC} --list-gpu-arch OUTPUT_VARIABLE known)
    set(images "")
    set(made "")
    set(names "")
    foreach(arch IN LISTS BRAID_GPU_ARCHITECTURES)
        if(NOT known MATCHES "compute_${arch}[^0-9]")
            continue()
        endif()
        if(NOT names)
            br_gpu_compiles(works ${arch} ${flags})
            if(NOT works)
                return()
            endif()
            set(ptx ${arch})
        endif()
        list(APPEND names "sm_${arch}")
        list(APPEND images --image3=kind=elf,sm=${arch},file=${folder}/reduce.sm_${arch}.cubin)
        list(APPEND made ${folder}/reduce.sm_${arch}.cubin)
    endforeach()
    if(NOT names)
        message(STATUS "No reduction kernels for GPUs: ${BRAID_NVCC} knows none of ${BRAID_GPU_ARCHITECTURES}")
        return()
    endif()
    list(APPEND images --image3=kind=ptx,sm=${ptx},file=${folder}/reduce.compute_${ptx}.ptx)
    list(APPEND made ${folder}/reduce.compute_${ptx}.ptx)
    foreach(file IN LISTS made)
        string(REGEX MATCH "[a-z]+_[0-9]+" arch ${file})
        cmake_path(GET file EXTENSION LAST_ONLY kind)
        string(REPLACE "." "-" kind ${kind})
        add_custom_command(OUTPUT ${file} DEPFILE ${file}.d DEPENDS ${CMAKE_SOURCE_DIR}/gpu/reduce.cu
            COMMAND ${CMAKE_C_COMPILER_LAUNCHER} ${BRAID_NVCC} ${flags} -c ${kind} -arch=${arch} -MD -MF ${file}.d -o ${file} ${CMAKE_SOURCE_DIR}/gpu/reduce.cu
            COMMENT "Reduction kernels for ${arch}" VERBATIM)
    endforeach()
    add_custom_command(OUTPUT ${folder}/reduce.fatbin DEPENDS ${made}
        COMMAND ${BRAID_FATBINARY} -64 --compress-all --create=${folder}/reduce.fatbin ${images} VERBATIM)
    list(JOIN names " " names)
    set_source_files_properties(${CMAKE_SOURCE_DIR}/gpu/image.c PROPERTIES OBJECT_DEPENDS ${folder}/reduce.fatbin
        COMPILE_DEFINITIONS "BRAID_GPU_IMAGE=\"${folder}/reduce.fatbin\";BRAID_GPU_ARCHITECTURES=\"${names}, PTX of compute_${ptx}\"")
    set(BRAID_GPU_IMAGE ${folder}/reduce.fatbin PARENT_SCOPE)
    message(STATUS "Reduction kernels for GPUs: ${names}, PTX of compute_${ptx}")
endfunction()

# Under a sanitizer nothing runs on a GPU.
set(BRAID_GPU_IMAGE "")
if(BRAID_GPU_KERNELS AND NOT BRAID_SANITIZE)
    find_program(BRAID_NVCC nvcc HINTS ENV CUDA_HOME ENV CUDA_PATH PATH_SUFFIXES bin PATHS /usr/local/cuda/bin)
    cmake_path(GET BRAID_NVCC PARENT_PATH tools) # "" without nvcc
    find_program(BRAID_FATBINARY fatbinary HINTS ${tools} PATHS /usr/local/cuda/bin)
    if(BRAID_NVCC AND BRAID_FATBINARY)
        br_gpu_image()
    elseif(BRAID_NVCC)
        message(STATUS "No reduction kernels for GPUs: fatbinary, a part of the CUDA toolkit, is not installed")
    else()
        message(STATUS "No reduction kernels for GPUs: nvcc is not installed")
    endif()
endif()
