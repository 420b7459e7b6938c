/* SPDX-License-Identifier: BSD-3-Clause */
/* The compiled reduction kernels, embedded where nvcc was found (cmake/cuda.cmake). */
#ifndef BR_GPU_IMAGE_H
#define BR_GPU_IMAGE_H

struct br_gpu_image {
    const char *bytes, *end; /* a fat binary, as cuModuleLoadData() takes it; NULL: built without */
    /* "sm_80 sm_90, PTX of compute_80"; without: what is missing and how to get it */
    const char *architectures;
};

extern const struct br_gpu_image br_gpu_image;

#endif
