"""What a reading may hold: the range of each number, the length of each text, the size of each list.

Readings come in, the same within these bounds go out, with a note on what was left out. Applied at two doors:
collect/gate.py to what hosts send, `store/` to what older files hold; run.py has the budget of all hosts of a
run together. What a value means is not decided here.
"""
