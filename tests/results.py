#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""results.py FOLDER PHASE=SECONDS...: the end of a test run. For each phase, FOLDER/PHASE.junit.xml and FOLDER/PHASE.log are
what ctest left; a phase without the former is one that only builds or installs. Prints what was skipped, what failed at first and passed
when it was run once more (flaky), what failed, how long phases and the slowest tests took, and at last "N passed, N failed". Exits with 1
if anything failed or nothing ran."""
import os
import re
import sys
import xml.etree.ElementTree as ElementTree

SLOWEST = 20


def read_phase(folder, phase):
    """[(test, status, seconds, output)], and the names of the tests of which a run failed."""
    path = os.path.join(folder, phase + ".junit.xml")
    tests = [
        (case.get("name"), case.get("status"), float(case.get("time")), case.findtext("system-out") or "")
        for case in ElementTree.parse(path).iter("testcase")
    ]
    with open(os.path.join(folder, phase + ".log"), errors="replace") as log:
        failures = set(re.findall(r"Test +#\d+: (\S+) .*\*\*\*(?!Skipped)", log.read()))
    return tests, failures


def main():
    folder, phases = sys.argv[1], [word.split("=") for word in sys.argv[2:]]
    passed, failed, flaky, skipped, times = [], [], [], [], []
    for phase, _ in phases:
        if not os.path.exists(os.path.join(folder, phase + ".junit.xml")):
            continue
        try:
            tests, failures = read_phase(folder, phase)
        except (OSError, ElementTree.ParseError) as error:
            failed.append(f"{phase}: ctest wrote no results: {error}")
            continue
        for test, status, seconds, output in tests:
            name = f"{phase}: {test}"
            times.append((seconds, name))
            if status == "run":
                passed.append(name)
                # tests in the guest are run once more there, see guest/all.sh
                if test in failures or re.search(r"^flaky: ", output, re.MULTILINE):
                    flaky.append(name)
            elif status == "fail":
                failed.append(name)
            else:
                skipped.append(f"{name}: {(output.strip().splitlines() or [''])[-1]}")
    for what, names in ("skipped", skipped), ("flaky", flaky), ("failed", failed):
        for name in names:
            print(f"{what}: {name}")
    print(f"\nthe {SLOWEST} slowest tests")
    for seconds, name in sorted(times, reverse=True)[:SLOWEST]:
        print(f"{seconds:8.1f} s  {name}")
    print("\nphases")
    for phase, seconds in phases:
        print(f"{int(seconds):8d} s  {phase}")
    print(f"{sum(int(seconds) for _, seconds in phases):8d} s  in all\n")
    print(f"{len(passed)} passed, {len(failed)} failed")
    return 1 if failed or not passed else 0


sys.exit(main())
