"""`write_report`: fits on one page that needs nothing but a browser; one file a section.

`tags` writes markup and escapes all else; `asked`, `verdicts`, `tables`, `pictures` and `again` are the sections.
"""
