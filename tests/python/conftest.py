# SPDX-License-Identifier: BSD-3-Clause
"""The job of a test file: one communicator for all its tests, which all ranks run in the same order. Where a test fails the others hear of it."""
import braid
import pytest

_comm = None


@pytest.fixture(scope="session")
def comm():
    global _comm
    _comm = braid.init()
    yield _comm
    _comm.finalize()


def pytest_runtest_logreport(report):
    if report.failed and _comm is not None and report.when == "call":
        try:
            _comm.abort(f"{report.nodeid} failed")
        except braid.Error:
            pass  # it has failed before, or was finalized
