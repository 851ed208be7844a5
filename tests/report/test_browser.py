"""A report in a real browser: every figure shows, no error, nothing from a network, any width."""

import json
import re
import shutil
import subprocess

import pytest

from tests.cli import world
from tests.cli.world import proxfl

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
OPTIONS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run "
    "--disable-background-networking --disable-component-update --disable-sync "
    "--enable-logging=stderr --v=0"
).split()

# Runs in a copy of the page, and writes what it sees where --dump-dom shows it.
CHECK = """
<script>
addEventListener("load", () => {
  const images = [...document.images].map(image => image.naturalWidth);
  const wide = [...document.querySelectorAll("body *")].filter(part =>
    !part.closest(".scroll, pre") && part.getBoundingClientRect().right > innerWidth + 1);
  const seen = {images, wide: wide.map(part => part.outerHTML.slice(0, 80)),
    width: innerWidth, scroll: document.documentElement.scrollWidth,
    loaded: performance.getEntriesByType("resource").map(entry => entry.name.slice(0, 40)),
    headings: [...document.querySelectorAll("h2")].map(heading => heading.textContent)};
  document.body.textContent = "SEEN" + JSON.stringify(seen) + "NEES";
});
</script>
"""

# Command -> its options, the headings of its report, and the number of figures.
REPORTS = {
    "train": (
        "--l1 0.01 --no-accelerate",
        "What was asked,What was found,Certificate,Convergence,Communication,Sites,Data,"
        "How to reproduce",
        4,
    ),
    "path": (
        "--points 5 --by sites --no-accelerate",
        "What was asked,What was chosen,What the model holds,What it cost,How to reproduce",
        3,
    ),
}

pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="there is no Chromium on this machine; install the package chromium"
)


@pytest.fixture(scope="module", params=REPORTS)
def report(request, tmp_path_factory):
    home = tmp_path_factory.mktemp("report")
    data = world.write(home / "data", world.by_label(world.wine()), 3)
    told = f"--target hue --loss squared --standardise {REPORTS[request.param][0]}"
    folder = home / request.param
    outcome = proxfl(request.param, data, *told.split(), "--out", folder, drawn=True)
    assert outcome.code == 0, outcome.err
    return folder / "report.html"


def look(report, folder, width):
    """The page as a browser shows it at a width, in an inner frame since windows have a least."""
    copy, frame = folder / "copy.html", folder / "frame.html"
    copy.write_text(report.read_text().replace("</body>", CHECK + "</body>"))
    if width is not None:
        frame.write_text(
            f'<iframe id="f" src="copy.html" style="width: {width}px; height: 900px"></iframe>'
            "<script>addEventListener('load', () => document.body.textContent ="
            " document.getElementById('f').contentDocument.body.textContent)</script>"
        )
    page = copy if width is None else frame
    done = subprocess.run(
        [
            *(CHROMIUM, *OPTIONS, "--allow-file-access-from-files"),
            *(f"--user-data-dir={folder / 'profile'}", "--dump-dom", f"file://{page}"),
        ],
        capture_output=True,
        text=True,
        timeout=120,
    )
    found = re.search("SEEN(.*)NEES", done.stdout.replace("&lt;", "<").replace("&gt;", ">"))
    assert found, done.stderr[-2000:]
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return json.loads(found[1]), console


@pytest.mark.parametrize("width", [None, 390], ids=["screen", "phone"])
def test_a_browser_shows_all_of_it_without_an_error(report, tmp_path, width):
    seen, console = look(report, tmp_path, width)
    assert console == []
    _, headings, figures = REPORTS[report.parent.name]
    assert len(seen["images"]) == figures and all(pixels > 300 for pixels in seen["images"])
    assert seen["headings"] == headings.split(",")
    assert all(name.startswith("data:") for name in seen["loaded"])
    assert seen["wide"] == [] and seen["scroll"] <= seen["width"]
    assert width is None or seen["width"] == width


def test_a_report_is_one_small_file_that_names_no_other(report):
    text = report.read_text()
    assert len(text) < 2_000_000
    addresses = re.findall(r"(?:src|href)=\"([^\"]{0,40})", text)
    assert addresses and all(address.startswith("data:") for address in addresses)
    assert "http://" not in text and "https://" not in text and "@import" not in text
