"""What one run is given, and what its study rules out."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from proxfl.deploy.masking.path import refuse_path
from proxfl.deploy.masking.training import refuse_unmaskable
from proxfl.deploy.protocol.experiment import method_of
from proxfl.deploy.protocol.study import LOOSE, Study
from proxfl.deploy.server.inquiry import Patience
from proxfl.errors import InputError
from proxfl.train.spec import Spec


@dataclasses.dataclass(frozen=True)
class RunOptions:
    """What one run is given, as Flower's configuration holds it; 0 is as in the study, or all."""

    folder: str = ""
    study: str = ""
    out: str = ""
    command: str = ""
    rounds: int = 0
    tol: float = 0.0
    quorum: int = 0
    wait: float = Patience().wait
    deadline: float = Patience().deadline
    secure: bool = True  # whether sites are known by their keys

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> "RunOptions":
        fields = dataclasses.fields(cls)
        return cls(**{field.name: config.get(field.name, field.default) for field in fields})

    @property
    def patience(self) -> Patience:
        return Patience(self.quorum or None, self.wait, self.deadline)

    def spec(self, study: Study) -> Spec:
        given = {"rounds": self.rounds, "tol": self.tol}
        return study.spec.replace(**{k: v for k, v in given.items() if v})


def refuse_quorum(spec: Spec, sites: int, quorum: int) -> None:
    """Refuse a quorum that means nothing."""
    if quorum > sites:
        raise InputError(f"quorum must be at most the {sites} sites, got {quorum}.")
    if 0 < quorum < sites and method_of(spec).needs_everyone:
        raise InputError(
            f"algorithm {spec.algorithm!r} needs every site in every round; drop the quorum, or "
            "use 'decoupled-partial'."
        )


def refuse_options(study: Study, options: RunOptions) -> None:
    """Refuse what the sites of a path, of a study with noise, or of a masked one do not follow."""
    changed = [name for name in LOOSE if getattr(options, name)]
    if study.choice is not None:
        refuse_path(study.spec, study.choice, len(study.sites), study.masked)
    if study.noise is not None and changed:
        raise InputError(
            f"the privacy noise of study {study.name} is for its own {study.spec.rounds} rounds, "
            f"and its sites count it so; write another study in place of another {changed[0]}."
        )
    if study.choice is not None and changed:
        raise InputError(
            f"a path is asked with its study's own {changed[0]}; write another study with the one "
            "you want."
        )
    if not study.masked:
        return
    if study.ask == "train":
        refuse_unmaskable(study.spec)
    if 0 < options.quorum < len(study.sites):
        raise InputError(
            "a masked run needs every site in every exchange, since only the sum of all shows "
            "anything; drop the quorum, or ask a study that is unmasked."
        )
    if changed:
        raise InputError(
            f"sites that follow a masked run hold it to the study's own {changed[0]}; write "
            "another study with the one you want."
        )
