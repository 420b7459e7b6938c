/* SPDX-License-Identifier: BSD-3-Clause */
/* The list of built-in back ends, in order of preference; a new one adds its declaration and its line. */
#ifndef BR_TRANSPORT_BACKENDS_H
#define BR_TRANSPORT_BACKENDS_H

#include "transport/transport.h"

#define BR_BACKENDS

#endif
