"""Results of the first edition, which had no digests, as files of today would hold them.

Nothing shows whether such a file was damaged, and whoever opens one is told so. It is known by its
keys, all of which are there and no others: a file of today that has lost its digest has more, and
is refused. What a model says today and did not then follows from the manifest beside it.
"""

from collections.abc import Mapping
from typing import Any

from proxfl.train.spec import Spec, loss_of

MODEL = frozenset(
    "format target loss features classes coef intercept nonzeros fill penalty objective "
    "certificate versions".split()
)
MANIFEST = frozenset(
    "format finished command working_folder date config seed versions fingerprints agreement sites "
    "ledger bytes_up bytes_down seconds".split()
)
DEPLOYED = MANIFEST | {"deployment"}
REASON = "Method: {algorithm}, in the first edition."
KINDS = {"excess": "imbalance"}  # of messages that have another name today


def is_model(held: Any) -> bool:
    return isinstance(held, dict) and held.keys() == MODEL


def is_manifest(held: Any) -> bool:
    return isinstance(held, dict) and held.keys() in (MANIFEST, DEPLOYED)


def counted(agreement: Any) -> Any:
    """An agreement that says how much the rows of a site count: once each, if it does not say."""
    silent = isinstance(agreement, dict) and "rows" in agreement
    return {"counts": agreement["rows"], **agreement} if silent else agreement


def manifest_now(held: Mapping[str, Any]) -> dict[str, Any]:
    algorithm = str(held["config"].get("algorithm"))
    return {
        **held,
        "ledger": {KINDS.get(kind, kind): traffic for kind, traffic in held["ledger"].items()},
        "method": {"name": algorithm, "reason": REASON.format(algorithm=algorithm)},
        "exchanges": sum(kind["exchanges"] for kind in held["ledger"].values()),
    }


def model_now(held: Mapping[str, Any], manifest: Mapping[str, Any]) -> dict[str, Any]:
    """A model, with what the options and the agreement in its manifest say of it."""
    spec, agreement = Spec.from_dict(manifest["config"]), manifest["agreement"]
    if agreement["features"] != held["features"]:
        raise ValueError("the manifest beside it is of another model; restore both.")
    return {
        **held,
        "outputs": agreement["targets"],
        "problem": {k: v for k, v in spec.changed().items() if k not in ("sites", "out")},
        "settings": loss_of(spec).settings,
        "schema": None,
        "missing": spec.missing,
        "certificate": {**held["certificate"], "relative_gap": None},
    }
