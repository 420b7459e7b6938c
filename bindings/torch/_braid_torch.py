# SPDX-License-Identifier: BSD-3-Clause
"""How PyTorch learns of the backend "braid" in a script that does not import braid.torch: by the entry points of this distribution
(entry_points.txt). The module stands beside package braid, not in it: `import torch` loads it in every program of the environment, also in those
without braid, and there it must cost nothing and must not fail because libbraid cannot be loaded."""


def register() -> None:
    """Group torch.distributed.backends (PyTorch 2.14 and later): called when "braid" is first asked for by its name. An exception of this import is
    the cause of the RuntimeError that init_process_group() raises."""
    import braid.torch  # noqa: F401


def autoload() -> None:
    """Group torch.backends (PyTorch 2.5 and later): called at the end of every `import torch`, unless TORCH_DEVICE_BACKEND_AUTOLOAD=0. Up to 2.13
    it makes the name known, and the first group that is created with it imports the rest."""
    from torch import distributed

    if distributed.is_available() and not hasattr(distributed.Backend, "_ensure_backend_registered"):
        distributed.Backend.register_backend("braid", _create, extended_api=True, devices=["cpu", "cuda"])


def _create(of, options):
    """The creator of a group in place of braid.torch's own, which it calls."""
    import braid.torch

    return braid.torch._create(of, options)
