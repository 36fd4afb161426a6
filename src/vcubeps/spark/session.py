"""A Spark session that starts fast and quietly on this machine and does not get in the way on a cluster.

All settings are here. What the Java process needs to know is set before it starts, so a session that runs
already is taken as it is.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import socket
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType, MappingProxyType
from typing import TypeAlias

from pyspark.sql import SparkSession

from vcubeps.spark import class_archive
from vcubeps.spark.java import find_java

Session: TypeAlias = SparkSession
"""For those outside of this package, who need not know Spark."""

LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")

EVERYWHERE = {
    "spark.ui.showConsoleProgress": "false",  # the sweep draws its own
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}

LOCAL = {
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.adaptive.enabled": "true",
    "spark.python.worker.reuse": "true",
}
"""For a machine with a few cores; a cluster decides for itself."""

LOOPBACK = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
"""Where everything is on this machine, nobody else needs to reach us."""

_MEMORY = re.compile(r"([1-9][0-9]{0,6})([kmgt])b?", re.IGNORECASE)
_LEAST_BYTES = 512 << 20
"""Spark refuses to start with less than 450 MiB."""
_CONNECT_SECONDS = 5.0
_MASTER = r"local(\[([1-9]\d*|\*)(, ?[1-9]\d*)?\])?|local-cluster\[\d+, ?\d+, ?\d+\]|spark://.+|yarn|k8s://.+"


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
    """Of the Java process that is started here."""
    ui: bool = False
    """Serve Spark's own pages at port 4040."""
    provided_java: bool = False
    """Use the Java that comes as a wheel although the machine has one."""
    log: str = "off"
    """Level of Spark's own log on stderr: off, error, warn, info. What goes wrong is raised anyway."""
    brief: bool = True
    """Java compiles quickly rather than well: right where the work is done in Python, or there is little."""
    settings: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Spark's own, over ours."""


@contextmanager
def spark_session(wanted: Wanted | None = None) -> Iterator[SparkSession]:
    """A session that ends with the block, quietly too if the block is interrupted or the process terminated."""
    with _without_reports_of_interrupts():
        with _interrupts_put_off() as was_interrupted:
            session = open_session(wanted)
        try:
            if was_interrupted():
                raise KeyboardInterrupt
            # Spark's own handler asks Java to end the work, in the middle of another question to Java; and a
            # termination should end like an interrupt.
            with _signals_handled(signal.default_int_handler):
                yield session
        finally:
            session.stop()


@contextmanager
def _interrupts_put_off() -> Iterator[Callable[[], bool]]:
    """A Java process whose start is interrupted would stay for ever."""
    noted: list[int] = []
    with _signals_handled(lambda number, _: noted.append(number)):
        yield lambda: bool(noted)


@contextmanager
def _signals_handled(handler: Callable[[int, FrameType | None], object]) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield  # signals are not for others
        return
    before = {number: signal.signal(number, handler) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


@contextmanager
def _without_reports_of_interrupts() -> Iterator[None]:
    """py4j and PySpark tell at length what an interrupt has interrupted."""

    def is_none(record: logging.LogRecord) -> bool:
        return "while sending command" not in str(record.msg)

    root, bridge = logging.getLogger(), logging.getLogger("py4j")
    level = bridge.level
    root.addFilter(is_none)
    bridge.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Unable to cleanly shutdown Spark JVM", RuntimeWarning)
            yield
    finally:
        bridge.setLevel(level)
        root.removeFilter(is_none)


def open_session(wanted: Wanted | None = None) -> SparkSession:
    """The session to work with; the caller stops it."""
    wanted = wanted or Wanted()
    if wanted.master and wanted.remote:
        raise SessionError(
            f"both a master ({wanted.master}) and a remote server ({wanted.remote}) are given: give one"
        )
    if wanted.remote:
        return _connect(wanted.remote, wanted.settings)
    return _start(wanted.master or "local[*]", wanted)


def _connect(address: str, settings: Mapping[str, str]) -> SparkSession:
    if not address.startswith("sc://"):
        raise SessionError(f"{address!r} is no Spark Connect address: write sc://HOST[:PORT]")
    _check_reachable("Spark Connect server", address, 15002)
    builder = SparkSession.builder.appName("vcubeps").remote(address)
    for name, value in settings.items():
        builder = builder.config(name, value)
    try:
        return builder.getOrCreate()
    except Exception as error:
        raise SessionError(
            f"no session at {address}: {_first_line(error)}; check that a Spark Connect server of the same version "
            "listens there"
        ) from error


def _start(master: str, wanted: Wanted) -> SparkSession:
    if not re.fullmatch(_MASTER, master):
        raise SessionError(
            f"{master!r} is no Spark master: write local[CORES], local-cluster[WORKERS,CORES,MEGABYTES] or "
            "spark://HOST:PORT"
        )
    if master.startswith("spark://"):
        _check_reachable("Spark master", master, 7077)
    _check_memory(wanted.settings.get("spark.driver.memory", wanted.memory))
    java = find_java(provided=wanted.provided_java)
    os.environ["JAVA_HOME"] = str(java.launcher_home())
    settings = {
        **EVERYWHERE,
        "spark.ui.enabled": str(wanted.ui).lower(),
        "spark.driver.memory": wanted.memory,
        "spark.driver.extraJavaOptions": " ".join(_java_options(wanted, class_archive.options(java))),
    }
    if master.startswith("local"):
        os.environ["PYSPARK_PYTHON"] = sys.executable  # workers need this very environment
        settings |= LOCAL
    else:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if re.match(r"local|spark://(127\.|localhost\b)", master):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        settings |= LOOPBACK
    builder = SparkSession.builder.appName("vcubeps").master(master)
    for name, value in {**settings, **wanted.settings}.items():
        builder = builder.config(name, value)
    try:
        return builder.getOrCreate()
    except Exception as error:
        raise SessionError(
            f"Spark does not start on {master}: {_first_line(error)}; check the address and the memory"
        ) from error


def _java_options(wanted: Wanted, archive: list[str]) -> list[str]:
    options = [f"-Dlog4j2.configurationFile={LOG_SETTINGS.as_uri()}", f"-Dvcubeps.log={wanted.log}", *archive]
    return [*options, "-XX:TieredStopAtLevel=1"] if wanted.brief else options


def _check_reachable(what: str, address: str, default_port: int) -> None:
    """Spark itself would try for minutes."""
    # Several masters may stand by: spark://HOST:PORT,HOST:PORT.
    hosts = re.sub(r"[/;].*", "", address.partition("://")[2]).split(",")
    problem: object = "no address"
    for host_and_port in hosts:
        host, _, port = host_and_port.partition(":")
        if port and not port.isdigit():
            raise SessionError(f"{address!r} has no port number after the colon: write HOST:PORT")
        try:
            with socket.create_connection((host, int(port or default_port)), _CONNECT_SECONDS):
                return
        except (OSError, OverflowError) as error:
            problem = error
    raise SessionError(
        f"no {what} answers at {address} ({problem}): start it, or check the address and the port"
    )


def _check_memory(memory: str) -> None:
    written = _MEMORY.fullmatch(memory)
    if written is None:
        raise SessionError(f"{memory!r} is no amount of memory: write a number and m or g, such as 2g")
    wanted = int(written[1]) << {"k": 10, "m": 20, "g": 30, "t": 40}[written[2].lower()]
    if wanted < _LEAST_BYTES:
        raise SessionError(f"{memory} of memory is too little for Spark: give at least 512m")
    there_is = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if wanted > there_is:
        raise SessionError(f"{memory} of memory is more than this machine's {there_is >> 20}m: give less")


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    # Java's own words come after the bridge's.
    return next((line[2:] for line in lines if line.startswith(": ")), lines[0])[:300]
