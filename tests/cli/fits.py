"""Fits that between them use nearly every option, as one would type them."""

# Data set and options; the files they name are in the folder of the data.
CASES = {
    "l1": ("cancer", "--target benign --loss logistic --l1 0.02 --standardise"),
    "elastic net": (
        "diabetes",
        "--target progression --loss squared --l1 0.1 --l2 0.01 --feature-weights factors.csv "
        "--weights uniform",
    ),
    "one weight": (
        "diabetes",
        "--target progression --loss squared --elastic-net 0.1 --l1-ratio 0.7 --standardise",
    ),
    "huber": (
        "diabetes",
        "--target progression --loss huber --huber-delta 20 --l1 0.05 --nonneg --no-precondition "
        "--standardise --no-accelerate",
    ),
    "poisson": (
        "holes",
        "--target progression --loss poisson --box -1e0 inf --missing drop --no-accelerate",
    ),
    "simplex": (
        "diabetes",
        "--target progression --loss squared --simplex 300 --no-intercept --no-accelerate",
    ),
    "groups": (
        "holes",
        "--target progression --loss squared --group groups.csv --group-weight 2 --missing mean "
        "--standardise --no-accelerate",
    ),
    "softmax": (
        "wine",
        "--target cultivar --loss softmax --group-weight 0.03 --local-steps 3 --standardise "
        "--no-accelerate --tol 1e-5",
    ),
    "nuclear": (
        "digits",
        "--target digit --loss softmax --nuclear 0.02 --standardise --no-accelerate --tol 1e-3",
    ),
    "schema": (
        "mixed",
        "--target progression --loss squared --schema schema.toml --features age sex bmi bp ward "
        "--exclude age --group-weight 0.1 --no-accelerate",
    ),
    "given steps": (
        "sparse",
        "--target y --loss squared --l1 0.5 --eta 0.2 --eta-g 2 --no-accelerate --seed 3",
    ),
}


def arguments(data, name):
    folder, told = CASES[name]
    located = [
        str(data / word) if word.endswith((".csv", ".toml")) else word for word in told.split()
    ]
    return ["train", data / folder, *located]
