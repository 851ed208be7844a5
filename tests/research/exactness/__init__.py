"""The inequalities of docs/theory.md, along runs of an independent loop."""
