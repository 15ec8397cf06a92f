"""Tests of gpumon_static/store/history/; test_recount.py compares all answers with a plain recount."""
