"""`data/history/`: every run as Parquet files, asked in SQL. DuckDB is imported in this room only.

record.py adds a run, closing.py turns runs into hours and days and sums them up, reader.py finds the files
of a period. A question is a file in questions/, over sums of sums/. What is busy is not decided here.
"""
