"""The server's side of a training run: round after round until a certificate is met.

A driver is one file with one `Driver`: its state, a pytree, how that begins, a round of it, and the
model in it. `driver_of` in `train.py` chooses among them; `method_of` in
`deploy/protocol/experiment.py` says what sites run for it.
"""
