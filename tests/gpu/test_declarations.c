/* SPDX-License-Identifier: BSD-3-Clause */
/* gpu/cuda.h and gpu/driver.h beside NVIDIA's cuda.h, where it is installed and as new as ours:
 * values and types, when this is compiled. The layouts of structures are asserted in gpu/cuda.h,
 * here against NVIDIA's, elsewhere against ours. */
#if __has_include(<cuda.h>)
#include <cuda.h>
#endif

#if defined CUDA_VERSION && CUDA_VERSION >= 13000 /* an older one lacks some of what we declare */

#include "gpu/driver.h"

#define SAME_VALUE(ours, theirs, value)                                                            \
    _Static_assert((long long)(ours) == (long long)(theirs), #theirs);
BR_CUDA_CONSTANTS(SAME_VALUE)

/* Redeclared with our types: the compiler refuses what is not compatible. */
#define SAME_TYPE(field, symbol, parameters) br_cuda_result symbol parameters;
BR_CUDA_SYMBOLS(SAME_TYPE)
BR_CUDA_OPTIONAL(SAME_TYPE)

int main(void)
{
    return 0;
}
#else
int main(void)
{
    return 77;
}
#endif
