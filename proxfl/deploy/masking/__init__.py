"""Sums that show nothing but themselves: signed members, pairwise one-time pads, a transcript."""
