"""`history.db` of versions before 0.2 comes in, a folder of Parquet files goes out.

source.py opens and checks the database, tables.py brings its tables to DuckDB, rows.py makes rows of them.
"""
