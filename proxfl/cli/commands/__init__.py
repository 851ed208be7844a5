"""One command per file: `arguments(parser)` and `main(args)`."""
