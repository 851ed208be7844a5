"""Train to a certificate: steps found by themselves, rounds saved by acceleration."""
