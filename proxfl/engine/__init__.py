"""A federation in one process: a client's visit, a round, a simulation, and what is measured."""
