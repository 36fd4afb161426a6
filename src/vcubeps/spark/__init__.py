"""The data pipeline on Spark: everything that imports pyspark, and nothing else does."""
