"""The page as a browser shows it, wide and on a phone."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path

import pytest

from report.measured import Report

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
WIDTHS = (1280, 390)

PROBE = """<script>
addEventListener("load", () => {
  const size = element => { const box = element.getBoundingClientRect(); return [box.width, box.height]; };
  const figures = [...document.querySelectorAll("figure")].map(figure => {
    const svg = figure.querySelector("svg");
    const marks = svg ? [...svg.querySelectorAll("path, use")].filter(mark => size(mark).some(Boolean)).length : 0;
    return { id: figure.id, size: size(svg || figure.querySelector("table")), marks,
      rows: figure.querySelectorAll("tbody tr").length, isDrawn: Boolean(svg) };
  });
  const page = document.documentElement;
  parent.postMessage({ width: innerWidth, scrollWidth: page.scrollWidth, figures }, "*");
});
</script>"""

FRAME = """<!doctype html><body><pre id="answers">[]</pre><script>
const answers = [];
addEventListener("message", event => {
  answers.push(event.data);
  document.getElementById("answers").textContent = JSON.stringify(answers);
});
</script>%s</body>"""


@pytest.fixture(scope="module")
def answers(tiny_page: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[int, dict]:
    """What the page looks like, by the width of the window it is in."""
    browser = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if browser is None:
        pytest.skip(f"no browser found: none of {', '.join(BROWSERS)} is on the PATH")
    folder = tmp_path_factory.mktemp("browser")
    page = (tiny_page / "index.html").read_text()
    (folder / "page.html").write_text(page.replace("</body>", f"{PROBE}</body>"))
    frames = "".join(
        f'<iframe src="page.html" style="width:{width}px;height:900px;border:0"></iframe>' for width in WIDTHS
    )
    (folder / "frames.html").write_text(FRAME % frames)
    shown = subprocess.run(
        [
            browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
            "--disable-background-networking", "--disable-component-update", "--disable-sync",
            "--allow-file-access-from-files", f"--user-data-dir={folder / 'profile'}", "--window-size=1400,1000",
            "--virtual-time-budget=5000", "--dump-dom", (folder / "frames.html").as_uri(),
        ],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    found = re.search(r'<pre id="answers">(.*?)</pre>', shown.stdout, re.DOTALL)
    assert found, shown.stderr
    return {answer["width"]: answer for answer in json.loads(unescape(found[1]))}


@pytest.mark.parametrize("width", WIDTHS)
class TestAtBothWidths:
    def test_every_figure_is_drawn(self, answers, tiny: Report, width):
        figures = {figure["id"]: figure for figure in answers[width]["figures"]}
        assert set(figures) == {f"figure-{figure.id}" for figure in tiny.catalogue.figures}
        for id_, figure in figures.items():
            wide, high = figure["size"]
            assert wide > 250, id_
            assert high > 150, id_
            assert figure["marks"] > 10 if figure["isDrawn"] else figure["rows"] == 8, id_

    def test_nothing_sticks_out(self, answers, width):
        assert answers[width]["scrollWidth"] <= width
