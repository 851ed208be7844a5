"""What the files of a result hold, as types; `proxfl.train.folder` writes and reads them."""

from typing import Any, NotRequired, TypedDict

from proxfl.losses.targets import Label
from proxfl.train.agreement import Agreement
from proxfl.train.local import Traffic
from proxfl.train.method import Method


class Formatted(TypedDict):
    format: str


class CertificateFile(TypedDict):
    """Null is what nobody computed, since it would carry no noise."""

    objective: float | None
    distance: float | None
    optimality: float | None
    tolerance: float
    converged: bool
    duality_gap: float | None
    relative_gap: float | None
    obstacle: NotRequired[str | None]
    rounds: int


class Privacy(TypedDict):
    """What noise protects: whom, against whom, provided what."""

    epsilon: float
    delta: float
    rounds: int
    clip: float
    noise: float
    protects: str
    against: str
    provided: str


class Nonzero(TypedDict):
    feature: str
    value: float


class SiteSurvival(TypedDict):
    """The hazard of a site up to some times, where it is known, and its pairs in order."""

    times: list[float]
    hazard: list[float]
    known: list[bool]
    right: float
    pairs: float


class Survival(TypedDict):
    """Of a row with this score."""

    score: float
    sites: dict[str, SiteSurvival]


class ModelFile(Formatted):
    """model.json"""

    target: str
    problem: dict[str, Any]
    loss: str
    features: list[str]
    classes: list[Label]
    outputs: list[Label]
    coef: list[float] | list[list[float]]
    intercept: float | list[float]
    nonzeros: list[Nonzero]
    settings: dict[str, Any]
    schema: dict[str, Any] | None
    missing: str
    fill: list[float] | None
    penalty: dict[str, Any]
    objective: str
    survival: NotRequired[Survival]
    certificate: CertificateFile
    privacy: NotRequired[Privacy]
    inference: NotRequired[dict[str, Any] | None]
    versions: dict[str, str]


class Begun(Formatted):
    """manifest.json, once the first round is done."""

    finished: bool
    command: str
    working_folder: str
    date: str
    config: dict[str, Any]
    seed: int
    versions: dict[str, str]
    fingerprints: dict[str, str]


class SiteEntry(TypedDict):
    name: str
    rows: int
    dropped: int
    weight: float
    loss: float | None
    outcome: NotRequired[dict[str, float]]


class SizesEntry(TypedDict):
    messages: int
    payload: int
    frame: int
    wire: int


class Ways(TypedDict):
    up: SizesEntry
    down: SizesEntry


class SiteShare(Ways):
    rounds: int


class FaultEntry(TypedDict):
    time: float
    step: int
    site: str
    sentence: str


class StudyEntry(TypedDict):
    name: str
    digest: str


class Masking(TypedDict):
    """Who followed a masked run, to which tip and model, and their signatures under it, as hex."""

    words: str
    members: dict[str, str]
    study: str
    tip: str
    model: str
    signatures: dict[str, str]


class Deployment(TypedDict):
    """What real sites did, and in which study."""

    study: NotRequired[StudyEntry]
    masking: NotRequired[Masking]

    sites: dict[str, SiteShare]
    traffic: Ways
    faults: list[FaultEntry]
    quorum: int
    resumed: int
    secure: bool


class Finished(Begun):
    """manifest.json of a finished run; `files` has the SHA-256 of those beside it."""

    agreement: Agreement
    sites: list[SiteEntry]
    ledger: dict[str, Traffic]
    method: NotRequired[Method]
    exchanges: NotRequired[int]
    bytes_up: int
    bytes_down: int
    seconds: float
    files: dict[str, str]
    deployment: NotRequired[Deployment]


class HistoryLine(TypedDict):
    """A line of history.jsonl; null is what nobody looked at, or was not finite."""

    round: int
    objective: float | None
    optimality: float | None
    eta: float | None
    counted: bool
    exchanges: NotRequired[int]
    bytes_up: int
    bytes_down: int
