"""Answers of the history come in, self-contained HTML texts for mail and for the site's `reports/` go out.

They are read once and kept: no script, no address of anything else. What is shown of users follows the main
page's privacy tier: months.py applies it.
"""
