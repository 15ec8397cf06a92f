"""A recipe for the readers of some hosts comes in; one reading per host goes out, in order, by the deadline.

ask.py chooses the engine and keeps that contract, processes.py watches over worker processes, worker.py is
one of them, threads.py asks many hosts at once inside it, as many as limits.py finds room for. dask_run.py
sends shards of hosts to Dask workers, who do the same. How a host is asked does not belong here.
"""
