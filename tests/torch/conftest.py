# SPDX-License-Identifier: BSD-3-Clause
"""Fixtures of several files."""
import pytest
import torch.distributed as dist


@pytest.fixture(params=[2, 3])
def size(request):
    """Ranks of the group; the others do nothing in the test."""
    if dist.get_rank() >= request.param:
        pytest.skip("not a rank of this group")
    return request.param
