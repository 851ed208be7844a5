"""Make docs/samples/: the reports that the commands of start.md and choose.md write, and pictures.

The pictures need Chromium, and are left as they are where there is none.
"""

import shutil
import subprocess
import tempfile
from contextlib import chdir
from pathlib import Path

import snippets

DOCS = Path(__file__).parent.parent
SAMPLES = DOCS / "samples"
COMMAND = (
    "path hospitals/ --target diagnosis --loss logistic --standardise --ratio 0.003 --out out/path"
)
BROWSER = "--headless --no-sandbox --disable-gpu --hide-scrollbars --force-device-scale-factor=1"


def main() -> None:
    from proxfl.cli.main import main as proxfl

    page = DOCS / "start.md"
    data = next(block for block in snippets.blocks(page) if block.language == "python")
    SAMPLES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        snippets.run(data, page, {})
        if proxfl(COMMAND.split()):
            raise SystemExit("the sample is not converged.")
        shutil.copy("out/path/report.html", SAMPLES / "path.html")
        shutil.copy("out/path/model/report.html", SAMPLES / "model.html")
        shutil.copy("out/path/figures/coefficients.png", SAMPLES / "coefficients.png")
    if browser := shutil.which("chromium"):
        shot, address = f"--screenshot={SAMPLES / 'report.png'}", f"file://{SAMPLES / 'path.html'}"
        command = [browser, *BROWSER.split(), "--window-size=900,800", shot, address]
        subprocess.run(command, check=True, capture_output=True)


if __name__ == "__main__":
    main()
