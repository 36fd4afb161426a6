"""Arguments of the commands that run on Spark, and the session that they ask for."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from vcubeps.cli.common import CommandError, Parser, abbreviated

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from vcubeps.spark.store import Store


def add_spark_options(parser: Parser) -> None:
    group = parser.add_argument_group(
        "Spark", "where it runs; by default on this machine, embedded, on all cores"
    )
    group.add_argument(
        "--master",
        metavar="URL",
        help="local[CORES], spark://HOST:PORT or local-cluster[WORKERS,CORES,MEGABYTES]",
    )
    group.add_argument("--remote", metavar="URL", help="a Spark Connect server: sc://HOST[:PORT]")
    group.add_argument(
        "--memory", default="2g", metavar="SIZE", help="of the Java process started here (default: 2g)"
    )
    group.add_argument(
        "--conf", action="append", default=[], metavar="KEY=VALUE", help="a setting of Spark; may be repeated"
    )
    group.add_argument(
        "--spark-log",
        choices=("off", "error", "warn", "info"),
        default="off",
        help="Spark's own log (default: off)",
    )
    group.add_argument("--ui", action="store_true", help="serve Spark's own pages at port 4040 meanwhile")


def needs_spark(what: str, error: ImportError) -> CommandError:
    """The refusal of a command without what it imports."""
    missing = (error.name or "pyspark").partition(".")[0]
    return CommandError(f"{what} needs {missing}, which is not installed: pip install 'vcubeps[spark]'")


@contextmanager
def session_for(args: argparse.Namespace, *, brief: bool = True) -> Iterator[SparkSession]:
    """The session that the arguments ask for; what goes wrong with Spark inside the block is said in one sentence."""
    try:
        from vcubeps.spark.errors import SparkFailed  # noqa: PLC0415
        from vcubeps.spark.java import JavaMissing  # noqa: PLC0415
        from vcubeps.spark.session import SessionError, Wanted, spark_session  # noqa: PLC0415
        from vcubeps.spark.store import StoreError  # noqa: PLC0415
    except ImportError as error:
        raise CommandError(
            f"this command needs {error.name}, which is not installed: pip install 'vcubeps[report]'"
        ) from None
    wanted = Wanted(
        master=args.master,
        remote=args.remote,
        memory=args.memory,
        ui=args.ui,
        log=args.spark_log,
        brief=brief,
        settings=_settings(args.conf),
    )
    if sys.stderr.isatty():
        print("starting Spark …", end="\r", file=sys.stderr, flush=True)
    try:
        with spark_session(wanted) as session:
            yield session
    except (JavaMissing, SessionError, SparkFailed, StoreError) as error:
        raise CommandError(str(error)) from None


def store_at(place: str) -> Store:
    """The store there, refused before Spark starts if it cannot be one."""
    from vcubeps.spark.store import Store, StoreError  # noqa: PLC0415

    store = Store(place)
    try:
        store.check()
    except StoreError as error:
        raise CommandError(str(error)) from None
    return store


def _settings(given: list[str]) -> dict[str, str]:
    settings: dict[str, str] = {}
    for setting in given:
        name, equals, value = setting.partition("=")
        if not equals or not name.startswith("spark."):
            raise CommandError(
                f"--conf {abbreviated(setting)!r} is none: write spark.NAME=VALUE, such as spark.executor.memory=4g"
            )
        settings[name] = value
    return settings
