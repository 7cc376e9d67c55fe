"""One file is one command: `HELP`, `arguments(parser)`, `main(args) -> exit code`. The folder is the list."""
