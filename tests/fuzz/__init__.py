"""Mutation fuzzers: seeded, so that each case can be made again from its kind, seed and number.

    mutate.py    bytes in, other bytes out             seeds.py     what is mutated
    oracles.py   what may come out of each input
    user_texts.py  runs.py   what users write, in one answer and in several runs, with an oracle of honest facts
    cases.py     the kinds, and the n-th case of each  corpus/      what was found once, replayed first

`pytest tests/fuzz` runs a small share of them; `make fuzz` all, `make fuzz SEED=7` the same ones again.
"""
