"""Spark's long reports of failure, as one sentence that a person can act on."""

from __future__ import annotations

import re

_CAUSES = (
    ("No module named 'vcubeps'", "Spark's workers have no vcubeps: docs/operating/spark.md says how they get it"),
    ("No space left on device", "the disk is full: make room and run it again"),
    ("Disk quota exceeded", "the disk quota is used up: make room and run it again"),
    ("Permission denied", "a file may not be written: check the permissions"),
    ("Read-only file system", "the file system is read-only: name a directory that can be written to"),
    ("java.lang.OutOfMemoryError", "Java ran out of memory: give more with --memory"),
    ("MemoryError", "a task ran out of memory: make the runs smaller, or use fewer cores"),
    ("Python worker exited unexpectedly", "a worker process was killed, perhaps for lack of memory: use fewer cores"),
    ("SparkContext was shut down", "Spark has gone away: run it again"),
    ("All masters are unresponsive", "the Spark master does not answer: check its address and that it is up"),
)  # fmt: skip
"""What is found in the report, and what is said then."""


class SparkFailed(Exception):
    """Spark could not do it; the text says why and what to do."""


def failure(error: Exception, what: str) -> SparkFailed:
    """What to raise for an error that came out of Spark while it did `what`.

    >>> print(failure(RuntimeError("… java.io.IOException: No space left on device …"), "the sweep"))
    the disk is full: make room and run it again (it failed in the sweep)
    """
    if isinstance(error, SparkFailed):
        return error
    report = str(error).strip()
    raised = re.search(r"SparkFailed: (.*)", report)
    if raised:
        return SparkFailed(raised[1].strip())
    unreachable = re.search(r"Call From \S+ to (\S+) failed on connection exception", report)
    if unreachable:
        return SparkFailed(f"nothing answers at {unreachable[1]}: check the address (it failed in {what})")
    broken = re.search(
        r"(\S+\.parquet) is not a Parquet file|footer for file: (\S+\.parquet)|"
        r"CANNOT_READ_FILE\S* .*?(\S+\.parquet)",
        report,
    )
    if broken:
        name = next(filter(None, broken.groups()))
        return SparkFailed(
            f"the file {name} is broken: remove it, and what it had is made again (it failed in {what})"
        )
    for sign, sentence in _CAUSES:
        if sign in report:
            return SparkFailed(f"{sentence} (it failed in {what})")
    # The last line of a Python traceback names the error; Java's first line does.
    lines = re.findall(r"^\w[\w.]*(?:Error|Exception): .*$", report, re.MULTILINE)
    line = lines[-1] if lines else next(iter(report.splitlines()), type(error).__name__)
    return SparkFailed(f"Spark failed in {what}: {line.strip()[:300]}")
