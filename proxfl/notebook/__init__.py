"""Training on data frames, and its result as a notebook shows it."""
