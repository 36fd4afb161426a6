"""A real Spark cluster on loopback for tests: a standalone master with workers, and a Spark Connect server.

The same programs that docs/operating/spark.md starts, on ports that are free.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

from ports import free_port
from vcubeps.spark.java import find_java

SPARK_HOME = Path(pyspark.__file__).parent
DEADLINE_SECONDS = 120


@contextmanager
def program(log: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """One of Spark's programs, until the block ends; what it says goes to `log`."""
    environment = {
        **os.environ,
        "SPARK_HOME": str(SPARK_HOME),
        "JAVA_HOME": str(find_java().launcher_home()),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
    }
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(SPARK_HOME / "bin" / arguments[0]), *arguments[1:]],
            env=environment,
            stdout=output,
            stderr=output,
        )
        try:
            yield process
        finally:
            process.terminate()
            process.wait(30)


def wait_until(ready: str, condition: object, processes: list[subprocess.Popen[bytes]], logs: Path) -> None:
    assert callable(condition)
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        said = "\n".join(f"{log.name}: {log.read_text()[-1500:]}" for log in logs.glob("*.log"))
        assert all(process.poll() is None for process in processes), f"ended before {ready}:\n{said}"
        assert time.monotonic() < deadline, f"not {ready} in time:\n{said}"
        time.sleep(0.05)


@contextmanager
def standalone_cluster(folder: Path, workers: int = 2) -> Iterator[str]:
    """spark://… of a master with so many workers of one core each."""
    port, page = free_port(), free_port()
    address = f"spark://127.0.0.1:{port}"
    with ExitStack() as stack:
        processes = [
            stack.enter_context(
                program(
                    folder / "master.log", "spark-class", "org.apache.spark.deploy.master.Master",
                    "--host", "127.0.0.1", "--port", str(port), "--webui-port", str(page),
                )
            )
        ]  # fmt: skip
        wait_until("listening", lambda: _answers(port), processes, folder)
        processes += [
            stack.enter_context(
                program(
                    folder / f"worker-{k}.log", "spark-class", "org.apache.spark.deploy.worker.Worker",
                    "--host", "127.0.0.1", "--cores", "1", "--memory", "1g", "--webui-port", str(free_port()),
                    "--work-dir", str(folder / f"worker-{k}"), address,
                )
            )
            for k in range(workers)
        ]  # fmt: skip
        wait_until("registered", lambda: _workers_alive(page) == workers, processes, folder)
        yield address


def _workers_alive(page: int) -> int:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{page}/json/", timeout=10) as answer:
            return int(json.load(answer)["aliveworkers"])
    except (OSError, json.JSONDecodeError):
        return 0  # the master's page comes a little after the master, and its parts one after the other


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), 1):
            return True
    except OSError:
        return False


@contextmanager
def connect_server(folder: Path, master: str = "local[2]") -> Iterator[str]:
    """sc://… of a Spark Connect server."""
    port = free_port()
    server = program(
        folder / "connect.log", "spark-submit", "--master", master,
        "--class", "org.apache.spark.sql.connect.service.SparkConnectServer",
        "--conf", f"spark.connect.grpc.binding.port={port}", "--conf", "spark.connect.grpc.binding.address=127.0.0.1",
        "--conf", "spark.ui.enabled=false", "spark-internal",
    )  # fmt: skip
    with server as process:
        wait_until("listening", lambda: _answers(port), [process], folder)
        yield f"sc://127.0.0.1:{port}"
