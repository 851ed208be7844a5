"""The server's program: a training run over real sites."""
