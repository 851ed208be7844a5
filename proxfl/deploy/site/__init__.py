"""A site's program: its table, its states, and what it agrees to tell."""
