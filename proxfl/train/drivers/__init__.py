"""The server's side of a training run: round after round until a certificate is met."""
