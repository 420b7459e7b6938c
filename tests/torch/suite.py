#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""suite.py [--backend NAME] [--shard I/N] RANKS [TEST ...]: PyTorch's own tests of a backend with braid.

The tests are those of torch.testing._internal.distributed.distributed_test, which is part of the package torch. All run (of these the TESTs named
if any, and every Nth, beginning with the Ith, with --shard) that a backend for the CPU can run, with RANKS ranks. With 4 ranks only those run that
skipped.txt says need 4. What is skipped, or cannot pass whatever braid does, has to be what skipped.txt names with a reason each: the run fails if
a test is skipped that is not listed, and if one passes that is.

Whether a test is run PyTorch's decorators decide by the name of the backend: some want "gloo", some "mpi", some ask sets of names. A backend for
the CPU should pass all of these, so that while the tests are imported BACKEND is a name that equals all of them (CpuBackend).

Loading torch takes two seconds: this process does it once and forks the ranks of each test. It never opens a process group and starts no
threads itself, which is what makes that sound."""
import argparse
import gc
import multiprocessing
import os
import re
import sys
import tempfile
import time
import unittest
from functools import wraps
from multiprocessing import connection
from unittest import mock

HERE = os.path.dirname(os.path.abspath(__file__))
MEETING = 60  # seconds that ranks wait for each other before and after a test


class CpuBackend(str):
    """The name of the backend for decorators: "gloo" and "mpi" too, but neither "nccl" nor "ucc"."""

    def __eq__(self, other):
        return other in ("gloo", "mpi") or str.__eq__(self, other)

    def __ne__(self, other):
        return not self == other

    def __hash__(self):
        return hash("gloo")  # for sets of names


def read_skipped(ranks):
    """{test: reason} with that many ranks. A line of skipped.txt is `TEST: REASON` or, if it holds with some numbers of ranks only,
    `TEST 2 3: REASON`."""
    skipped = {}
    with open(os.path.join(HERE, "skipped.txt")) as lines:
        for line in lines:
            if line.strip() and not line.startswith("#"):
                words, reason = line.strip().split(": ", 1)
                test, *only = words.split()
                if not only or str(ranks) in only:
                    skipped[test] = reason
    return skipped


def needs_ranks(common, ranks):
    """PyTorch's skip_if_small_worldsize wants 8 ranks; what its tests need is ranks 1 and 2."""

    def decorator(test):
        @wraps(test)
        def wrapper(*args, **kwargs):
            if ranks < 3:
                sys.exit(common.TEST_SKIPS["small_worldsize"].exit_code)
            return test(*args, **kwargs)

        return wrapper

    return decorator


def load(backend, ranks):
    """PyTorch's tests as one class, whose processes are forked and write to a file."""
    os.environ.update(BACKEND=backend, WORLD_SIZE=str(ranks), INIT_METHOD="file://", CUDA_VISIBLE_DEVICES="")
    import torch

    if backend == "braid":
        import braid.torch  # noqa: F401
    from torch.testing._internal import common_distributed as common

    common.logger.setLevel("WARNING")
    for feature in "ddp", "subgroup", "plugin":
        common.DistTestCases.backend_feature[feature].add(backend)
    common.skip_if_no_gpu = common.skip_if_lt_x_gpu(ranks)  # says so in an attribute
    common.skip_if_small_worldsize = needs_ranks(common, ranks)
    with mock.patch.object(os, "environ", {**os.environ, "BACKEND": CpuBackend(backend)}):
        from torch.testing._internal.distributed import distributed_test as tests
    tests.PROFILING_SUPPORTED_BACKENDS.append(backend)
    tests.SEND_RECV_PROFILING_SUPPORTED_BACKENDS.append(backend)
    context = multiprocessing.get_context("fork")

    class Suite(tests.TestDistBackend, tests.DistributedTest._DistTestBase):
        def setUp(self):
            if getattr(getattr(Suite, self._testMethodName), "_min_gpus_required", 0):
                self.skipTest("it wants GPUs")  # for which no process need be started
            super().setUp()
            Suite.meeting = context.Barrier(ranks)
            self.output = Suite.output = tempfile.TemporaryFile("w+", errors="replace")
            self._start_processes(context.Process)

        def tearDown(self):
            self.output.close()
            super().tearDown()

        @classmethod
        def _run(cls, *args, **kwargs):
            for stream in 1, 2:
                os.dup2(cls.output.fileno(), stream)
            tests.INIT_METHOD = os.environ["INIT_METHOD"]  # this test's, by setUp()
            super()._run(*args, **kwargs)

        def _barrier(self, wait_for=None, timeout=10):
            """PyTorch's looks at files every 0.1 s."""
            if wait_for is None:
                self.meeting.wait(MEETING)
            else:
                super()._barrier(wait_for, timeout)

        def _join_processes(self, fn):
            """PyTorch's looks for ended processes every 0.1 s, so that it is called when all are, or when one has failed."""
            running = list(self.processes)
            end = time.monotonic() + common.get_timeout(self.id())
            while running and time.monotonic() < end:
                connection.wait([process.sentinel for process in running], end - time.monotonic())
                if any(process.exitcode == self.TEST_ERROR_EXIT_CODE for process in running):
                    break
                running = [process for process in running if process.exitcode is None]
            try:
                super()._join_processes(fn)
            except unittest.SkipTest:
                raise
            except BaseException:
                self.output.seek(0)
                print(self.output.read())
                raise

    return Suite


class Result(unittest.TestResult):
    """One line a test, and which passed. Those that are expected to fail count as skipped."""

    def __init__(self, expected):
        super().__init__()
        self.passed = set()
        self.expected = expected

    def startTest(self, test):
        super().startTest(test)
        self.begin = time.monotonic()

    def say(self, test, what):
        print(f"{time.monotonic() - self.begin:6.2f} s  {test._testMethodName}: {what}", flush=True)

    def addSuccess(self, test):
        super().addSuccess(test)
        self.passed.add(test._testMethodName)
        self.say(test, "passed")

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.say(test, f"skipped, {reason}")

    def addFailure(self, test, error):
        if test._testMethodName in self.expected:
            self.addSkip(test, "failed as skipped.txt says")
            return
        super().addFailure(test, error)
        self.say(test, f"FAILED\n{self._exc_info_to_string(error, test)}")

    addError = addFailure


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--backend", default="braid", help='also "gloo", to see what PyTorch\'s own does')
    parser.add_argument("--shard", default="1/1")
    parser.add_argument("ranks", type=int)
    parser.add_argument("tests", nargs="*")
    arguments = parser.parse_args()
    shard, shards = map(int, arguments.shard.split("/"))
    expected = read_skipped(arguments.ranks)
    try:
        import expecttest  # noqa: F401
    except ImportError:
        print("PyTorch's tests want expecttest: pip install expecttest")
        return 77
    suite = load(arguments.backend, arguments.ranks)
    every = unittest.TestLoader().getTestCaseNames(suite)
    names = every
    if arguments.ranks == 4:
        few = read_skipped(2).keys() & read_skipped(3).keys()
        names = [name for name in names if name in few and name not in expected]
    names = [name for name in names if not arguments.tests or name in arguments.tests][shard - 1 :: shards]
    gc.freeze()  # what is there is shared with the forked processes, which shall not copy it to count references
    result = Result(expected)
    begin = time.monotonic()
    unittest.TestSuite(map(suite, names)).run(result)
    skipped = {test._testMethodName: reason for test, reason in result.skipped}
    wrong = [f"{name} is skipped ({skipped[name]}), which skipped.txt does not say" for name in sorted(skipped.keys() - expected.keys())]
    wrong += [f"{name} is in skipped.txt and passed" for name in sorted(result.passed & expected.keys())]
    wrong += [f"{name} is in skipped.txt, and there is no such test" for name in sorted(expected.keys() - set(every))]
    print(*wrong, sep="\n")
    failed = len(result.failures) + len(result.errors)
    print(f"{len(result.passed)} passed, {len(skipped)} skipped, {failed} failed in {time.monotonic() - begin:.1f} s")
    return 1 if wrong or failed or not result.testsRun else 0


if __name__ == "__main__":
    sys.exit(main())
