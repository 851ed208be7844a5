"""How messages travel: by Flower, or by a network inside one process."""
