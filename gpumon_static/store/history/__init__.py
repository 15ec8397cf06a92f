"""`history.db`: sightings of each run come in, answers about hours, days and months go out.

record.py adds a run, questions.py and past/ ask; sums are made at write time, so that no question goes
through single samples. What counts as busy is not decided here.
"""
