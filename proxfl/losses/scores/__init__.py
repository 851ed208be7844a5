"""How good predictions are, from sums over rows, which add up over sites."""
