"""The command line: one file a command in `commands`; `python -m zoo` starts here."""
