"""Java's archive of Spark's classes: with it a session starts in half the time.

It is made once for a Java and a Spark, by a small session that uses what our commands use:

    python -m vcubeps.spark.class_archive

Without it everything works, slower.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pyspark

from vcubeps.spark.java import Java, cache_directory, find_java, hashed

_TRAINING = """
import sys
from pathlib import Path
from vcubeps.spark.session import Wanted, open_session

session = open_session(Wanted(master="local[2]", settings={"spark.driver.extraJavaOptions": sys.argv[1]}))
table = str(Path(sys.argv[2]) / "table")
rows = session.range(100).selectExpr("id", "id % 7 AS k", "array(id) AS list", "'x' AS text")
rows.mapInArrow(lambda batches: batches, rows.schema).write.partitionBy("k").parquet(table)
kept = session.read.parquet(table)
kept.createOrReplaceTempView("kept")
session.sql('''
    SELECT k, avg(total), stddev_samp(total), count(*) FROM (
        SELECT k, aggregate(list, 0L, (sum, x) -> sum + x) AS total,
               row_number() OVER (PARTITION BY k ORDER BY id) AS place
        FROM kept JOIN (SELECT explode(sequence(0, 6)) AS k) USING (k)
    ) GROUP BY k ORDER BY k''').collect()
session.createDataFrame([(1, "x")], "a long, b string").toPandas()
groups = kept.select("id", "k").groupBy("k")
groups.applyInArrow(lambda table: table, "id long, k int").count()
groups.cogroup(groups).applyInArrow(lambda one, other: one, "id long, k int").count()
process = session.sparkContext._gateway.proc
session.stop()
process.stdin.close()  # Java ends, and writes its archive
process.wait()
"""


def path(java: Java) -> Path:
    """Where the archive for this Java and this Spark is, or would be."""
    name = hashed(f"{java.program} {java.version} {pyspark.__file__} {pyspark.__version__}")
    return cache_directory() / f"spark-{name}.jsa"


def options(java: Java) -> list[str]:
    """For the Java process: use the archive if there is one, and say nothing if it does not fit."""
    archive = path(java)
    return [f"-XX:SharedArchiveFile={archive}", "-Xlog:disable"] if archive.is_file() else []


def make(java: Java) -> Path:
    """Make the archive, whole or not at all. Raises OSError or CalledProcessError."""
    archive = path(java)
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=archive.parent) as folder:
        unfinished = Path(folder) / "archive.jsa"
        arguments = f"-XX:ArchiveClassesAtExit={unfinished} -XX:TieredStopAtLevel=1 -Xlog:disable"
        subprocess.run(
            [sys.executable, "-c", _TRAINING, arguments, folder],
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "JAVA_HOME": str(java.program.parent.parent)},
        )
        unfinished.replace(archive)
    return archive


def main() -> int:
    java = find_java()
    if path(java).is_file():
        return 0
    print("preparing Java's class archive, half a minute, once", file=sys.stderr)
    try:
        make(java)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"no class archive ({error}): sessions will start slower, all else works", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
