"""Hosts and a recipe for their readers come in; one reading per host goes out, in order, by the deadline.

Each engine keeps that one contract. What is asked, and how an answer is read, does not belong here.
"""
