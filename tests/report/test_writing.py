"""What is written: the page, its data and its pictures."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from report.measured import Report
from vcubeps.report.catalogue import PROFILES, catalogue
from vcubeps.report.writing import write_page

KEYS = ["id", "place", "paper", "measured", "ci95", "unit", "verdict", "why"]


def files_in(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }  # fmt: skip


@pytest.fixture(scope="module")
def planted_page(planted: Report, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return planted.write(tmp_path_factory.mktemp("planted") / "deep" / "report")


class TestContents:
    def test_planted_values_get_their_verdicts(self, planted_page):
        rows = {row["id"]: row for row in json.loads((planted_page / "figures.json").read_text())}
        assert rows["4.1-latency-vcube-25"]["verdict"] == "matches"
        assert rows["4.1-latency-srpt-25"]["verdict"] == "differs"
        assert rows["4.1-latency-srpt-25"]["relative_difference"] == pytest.approx(800 / 720 - 1)
        assert rows["4.1-latency-reduction-25"]["verdict"] == "not comparable"
        assert rows["4.1-latency-reduction-25"]["measured"] is None

    def test_rows_have_the_keys_that_were_asked_for_first(self, planted_page):
        for row in json.loads((planted_page / "figures.json").read_text()):
            assert list(row)[: len(KEYS)] == KEYS

    def test_page_says_verdicts_in_words_and_counts_them(self, planted_page):
        page = (planted_page / "index.html").read_text()
        assert "533.4 ± 0.7 u.t." in page
        assert "✓ matches" in page
        assert "≠ differs" in page
        assert "– not comparable" in page
        assert "<b>1</b>✓ matches" in page
        assert "<b>1</b>≠ differs" in page

    def test_gaps_are_said_and_not_filled(self, planted_page):
        page = (planted_page / "index.html").read_text()
        assert "No value:" in page
        assert "VCube-PS, 25 % subscribers at 16, 64" in page
        curves = json.loads((planted_page / "curves.json").read_text())["figures"][0]["curves"]
        assert [sample["mean"] for sample in curves[0]["samples"]][:3] == [123.0, None, 234.0]

    def test_curves_say_which_runs_they_are_of(self, planted_page):
        content = json.loads((planted_page / "curves.json").read_text())
        assert content["provenance"]["seed"] == 1
        sample = content["figures"][0]["curves"][0]["samples"][0]
        assert sample["scenario"] == "one-publisher"
        assert sample["parameters"]["nodes"] == 8
        assert sample["measure"]["of"] == "reception_ut"

    def test_a_figure_without_any_value_says_so(self, tmp_path):
        out = Report(catalogue(PROFILES["quick"], only=["4b"]), [], []).write(tmp_path / "report")
        assert "Not run." in (out / "index.html").read_text()
        assert "not run" in (out / "figures" / "4b.svg").read_text()

    def test_provenance_and_table_1_are_on_the_page(self, tiny_page):
        page = (tiny_page / "index.html").read_text()
        assert "<dt>runs</dt><dd>tiny 2</dd>" in page
        assert "SRPT, paper" in page
        assert page.count('<td class="number">512</td>') == 2

    def test_every_figure_has_its_pictures(self, tiny, tiny_page):
        drawn = {figure.id for figure in tiny.catalogue.figures if figure.kind != "table"}
        pictures = {path.name for path in (tiny_page / "figures").iterdir()}
        assert pictures == {f"{id_}.{kind}" for id_ in drawn for kind in ("svg", "png")}

    def test_amended_protocol_loses_nothing_in_the_figure_of_losses(self, tiny_page):
        figures = json.loads((tiny_page / "curves.json").read_text())["figures"]
        [losses] = [figure for figure in figures if figure["id"] == "beyond-losses"]
        lost = {curve["series"]: curve["samples"][0]["mean"] for curve in losses["curves"]}
        assert lost["amended protocol, 12.5 % churn"] == 0
        assert lost["published protocol, 12.5 % churn"] > 0


class Markup(HTMLParser):
    """Collects what could refer to something."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.references: list[str] = []
        self.tags: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in {"meta", "br", "col"}:
            self.open.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            if name in {"href", "xlink:href", "src"}:
                self.references.append(value or "")
            self.references += re.findall(r"url\(([^)]*)\)", value or "")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def text(tiny_page: Path) -> str:
    return (tiny_page / "index.html").read_text()


@pytest.fixture(scope="module")
def markup(text: str) -> Markup:
    markup = Markup()
    markup.feed(text)
    return markup


class TestPage:
    def test_needs_nothing_else(self, text, markup):
        assert not re.search(r"https?:", text)
        assert "@import" not in text
        assert not {"script", "link", "img", "iframe", "object"} & set(markup.tags)

    def test_every_element_is_closed(self, markup):
        assert markup.open == []

    def test_identifiers_are_unique_and_references_lead_somewhere(self, markup):
        assert len(markup.ids) == len(set(markup.ids))
        assert markup.references
        assert {reference.removeprefix("#") for reference in markup.references} <= set(markup.ids)

    def test_pictures_and_tables_say_what_they_are(self, text, markup):
        assert '<html lang="en">' in text
        drawings = markup.tags.count("svg")
        assert drawings > 15
        assert len(re.findall(r'<svg [^>]*role="img" aria-label="[^"]+"', text)) == drawings
        assert markup.tags.count("caption") == markup.tags.count("table")

    def test_texts_are_escaped(self, planted, tmp_path):
        out = tmp_path / "report"
        write_page(out, planted.catalogue, [], [], {"<b>name</b>": "<script>alert(1)</script>"})
        assert "<script" not in (out / "index.html").read_text()


class TestFiles:
    def test_two_writes_are_identical(self, planted, planted_page, tmp_path):
        assert files_in(planted.write(tmp_path / "again")) == files_in(planted_page)

    def test_nothing_is_left_behind_when_writing_fails_midway(self, planted, tmp_path, monkeypatch):
        written = 0
        write_bytes = Path.write_bytes

        def failing(path: Path, content: bytes) -> int:
            nonlocal written
            written += 1
            if written == 3:
                raise OSError("no space left on device")
            return write_bytes(path, content)

        monkeypatch.setattr(Path, "write_bytes", failing)
        with pytest.raises(OSError, match="no space"):
            planted.write(tmp_path / "report")
        assert list(tmp_path.iterdir()) == []

    def test_an_earlier_report_stays_whole_when_writing_fails(self, planted, tmp_path, monkeypatch):
        out = planted.write(tmp_path / "report")
        before = files_in(out)
        monkeypatch.setattr(Path, "write_bytes", lambda *_: (_ for _ in ()).throw(OSError("disk")))
        with pytest.raises(OSError, match="disk"):
            Report(planted.catalogue, [], []).write(out)
        assert files_in(out) == before
        assert list(tmp_path.iterdir()) == [out]

    def test_only_its_own_files_are_touched(self, planted, tmp_path):
        out = tmp_path / "report"
        (out / "figures").mkdir(parents=True)
        (out / "mine.txt").write_text("mine")
        (out / "figures" / "mine.svg").write_text("mine")
        (out / "figures" / "9b.svg").write_text("of an earlier report")
        planted.write(out)
        assert (out / "mine.txt").read_text() == "mine"
        assert (out / "figures" / "mine.svg").read_text() == "mine"
        assert not (out / "figures" / "9b.svg").exists()
        assert (out / "figures" / "4a.svg").exists()

    def test_values_that_are_no_numbers_are_refused_before_anything_is_written(self, planted, tmp_path):
        bad = [value.__class__(value.id, float("nan"), None, 1) for value in planted.numbers]
        with pytest.raises(ValueError, match="JSON"):
            Report(planted.catalogue, planted.curves, bad).write(tmp_path / "report")
        assert list(tmp_path.iterdir()) == []
