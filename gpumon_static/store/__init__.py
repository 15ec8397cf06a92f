"""Readings kept: `load_data.csv`, `history/`, `events.json`, and the lock that keeps runs apart.

Records come in and are read back the same. What a reading means is
decided in `survey/`, which hands states over as plain numbers.
"""
