"""How messages travel: the seam, Flower behind it, and a network inside one process."""
