"""A Spark session that starts fast and quietly on this machine and does not get in the way on a cluster.

All settings are here. What the Java process needs to know is set before it starts, so a session that runs
already is taken as it is.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from vcubeps.spark.java import find_java

LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")

LOCAL = {
    "spark.ui.showConsoleProgress": "false",  # the sweep draws its own
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
}
"""For a machine with a few cores; a cluster decides for itself."""


class SessionError(Exception):
    """No session could be had; the text says why and what to do."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Where and how to run; the default is this machine, all cores."""

    master: str | None = None
    """local[*], spark://…, local-cluster[…]; None: local[*]."""
    remote: str | None = None
    """sc://…: a Spark Connect server; then nothing is started here."""
    memory: str = "2g"
    """Of the local Java process."""
    ui: bool = False
    """Serve Spark's own pages at port 4040."""
    provided_java: bool = False
    """Use the Java that comes as a wheel although the machine has one."""


def open_session(wanted: Wanted | None = None) -> SparkSession:
    """The session to work with; the caller stops it."""
    wanted = wanted or Wanted()
    if wanted.master and wanted.remote:
        raise SessionError(
            f"both a master ({wanted.master}) and a remote server ({wanted.remote}) are given: give one"
        )
    builder = SparkSession.builder.appName("vcubeps")
    if wanted.remote:
        if not wanted.remote.startswith("sc://"):
            raise SessionError(f"{wanted.remote!r} is no Spark Connect address: write sc://HOST[:PORT]")
        return builder.remote(wanted.remote).getOrCreate()
    master = wanted.master or "local[*]"
    os.environ["JAVA_HOME"] = str(find_java(provided=wanted.provided_java).home)
    os.environ["PYSPARK_PYTHON"] = sys.executable  # workers need this very environment
    settings = {
        "spark.ui.enabled": str(wanted.ui).lower(),
        "spark.driver.memory": wanted.memory,
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={LOG_SETTINGS.as_uri()}",
    }
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        settings |= LOCAL
    for name, value in settings.items():
        builder = builder.config(name, value)
    try:
        session = builder.master(master).getOrCreate()
    except Exception as error:
        raise SessionError(
            f"Spark does not start on {master}: {str(error).splitlines()[0]}; check the address and the memory"
        ) from error
    return session
