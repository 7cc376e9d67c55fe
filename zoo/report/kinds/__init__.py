"""One file is one kind of picture: `draw(fits, on, *, options) -> panels`. The folder is the list.

`fits` are posteriors, `on` is one Axes to draw on or None for a new figure; the panels come back in reading
order. The first line of a file's docstring is what `zoo plot --help` and an unknown kind's error say of it.
"""
