"""The survey and the history come in; the texts of the site's files go out: `page/` for users, `exports/`
for scripts, `reports/` for mail.

Nothing here decides what a reading means, and nothing writes a file: `render` does, when all texts are made.
"""
