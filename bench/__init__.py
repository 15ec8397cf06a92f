"""Benchmarks: `python -m bench`. No number is judged alone; each stands beside another of the same run.

docs/benchmarks.md has what each one measures, and its results.
"""
