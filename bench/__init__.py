"""Benchmarks: `python -m bench`. No number is judged alone; each stands beside another of the same run."""
