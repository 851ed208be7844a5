"""Figures: one style for all of them."""
