/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/downgrade.h"

struct br_downgrades br_downgrades;
