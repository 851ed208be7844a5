"""The objective from its formulas, in NumPy: what a result must agree with."""

from typing import Any

import numpy as np
from scipy.special import logsumexp

Site = tuple[np.ndarray, np.ndarray]


def row_losses(config: dict[str, Any], z: np.ndarray, y: np.ndarray) -> np.ndarray:
    if config["loss"] == "logistic":
        return np.logaddexp(0, -y * z)
    if config["loss"] == "softmax":
        return logsumexp(z, axis=1) - z[np.arange(len(y)), y]
    if config["loss"] == "poisson":
        return np.exp(z) - y * z
    residual, delta = np.abs(z - y), config["huber_delta"]
    if config["loss"] == "squared":
        return residual**2 / 2
    return np.where(residual <= delta, residual**2 / 2, delta * (residual - delta / 2))


def penalty(config: dict[str, Any], features: list[str], coef: np.ndarray) -> float:
    factors = np.array([(config["feature_weights"] or {}).get(name, 1.0) for name in features])
    by_feature = np.abs(coef).reshape(len(features), -1).sum(axis=1)
    total = config["l1"] * factors @ by_feature + config["l2"] / 2 * np.sum(coef**2)
    if config["elastic_net"]:
        ratio = config["l1_ratio"]
        total += config["elastic_net"] * ratio * np.abs(coef).sum()
        total += config["elastic_net"] * (1 - ratio) / 2 * np.sum(coef**2)
    if config["group_weight"]:
        group = config["group"] or {name: name.split("=")[0] for name in features}
        for label in set(group.values()) - {""}:
            members = coef[[group[name] == label for name in features]]
            total += config["group_weight"] * np.sqrt(members.size) * np.linalg.norm(members)
    if config["nuclear"]:
        total += config["nuclear"] * np.linalg.norm(coef, "nuc")
    return float(total)


def objective(
    config: dict[str, Any],
    features: list[str],
    sites: list[Site],
    coef: np.ndarray,
    intercept: np.ndarray,
    unit: np.ndarray,
) -> float:
    """Of coefficients for features as they are in the files; the penalty acts on unit * coef."""
    rows = [len(y) for _, y in sites]
    weights = np.array(rows) / sum(rows)
    if config["weights"] == "uniform":
        weights = np.full(len(sites), 1 / len(sites))
    means = [row_losses(config, X @ coef + intercept, y).mean() for X, y in sites]
    return float(weights @ means) + penalty(config, features, (coef.T * unit).T)
