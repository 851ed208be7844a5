"""A league table: every method tuned on the same budget, run over draws, judged by one measure."""
