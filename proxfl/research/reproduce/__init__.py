"""The paper's experiments, remarks and appendix, run again, with a verdict on every claim."""
