"""The paper's experiments, a league of methods, theory, and the problems they are tried on."""
