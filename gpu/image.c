/* SPDX-License-Identifier: BSD-3-Clause */
#include "gpu/image.h"

#ifdef BRAID_GPU_IMAGE

/* Some megabytes: the assembler takes them as they are, where a C array would be minutes of
 * compiling. */
__asm__(".section .rodata\n"
        ".balign 64\n"
        /* the C code may be compiled apart from this: LTO */
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
