/* SPDX-License-Identifier: BSD-3-Clause */
/* The image stands in a file of its own, so that a program can be linked with another one: tests of
 * the guest do so. */
#include "gpu/reduce.h"

#ifdef BRAID_GPU_IMAGE

/* The image has some megabytes. The assembler takes them as they are; compiling a C array of them
 * would take minutes. The symbols are global because the link-time optimiser may compile the C code
 * apart from this. */
__asm__(".section .rodata\n"
        ".balign 64\n"
        ".globl br_gpu_image_begin, br_gpu_image_end\n"
        ".hidden br_gpu_image_begin, br_gpu_image_end\n"
        "br_gpu_image_begin:\n"
        ".incbin \"" BRAID_GPU_IMAGE "\"\n"
        "br_gpu_image_end:\n"
        ".byte 0\n"
        ".previous\n");

extern __attribute__((visibility("hidden"))) const char br_gpu_image_begin[], br_gpu_image_end[];

const struct br_gpu_image br_gpu_image = {br_gpu_image_begin, br_gpu_image_end,
                                          BRAID_GPU_ARCHITECTURES};

#else

const struct br_gpu_image br_gpu_image = {
    .architectures =
        "this build has none; install the CUDA toolkit (nvcc) and a C++ compiler, and build again"};

#endif
