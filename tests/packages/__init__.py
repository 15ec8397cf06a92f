"""Packages and images as a whole, in machines made for them: `make packages`. Minutes, root, and Debian's mirror.

The files here are no part of `make test`; tests/deployment/test_packages.py is their short form.
"""
