"""One file is one command: `HELP`, `arguments(parser)` and `main(args) -> exit code`. The folder is the list."""
