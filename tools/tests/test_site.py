"""The built documentation: the same pages in both languages, and nothing that comes from elsewhere."""

import os
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).parents[2]
LANGUAGES = ("en", "zh-Hans")


class Page(HTMLParser):
    """What a page loads and where it links to."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.links: list[str] = []
        self.switches: dict[str, str] = {}
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag in {"script", "img", "iframe", "source", "audio", "video"} and "src" in given:
            self.loaded.append(given["src"])
        if tag == "link" and given.get("rel") not in {"canonical", "next", "prev"}:
            self.loaded.append(given["href"])
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
            if "md-select__link" in given.get("class", ""):
                self.switches[given["hreflang"]] = given["href"]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built where no network can be reached."""
    made = tmp_path_factory.mktemp("docs") / "site"
    apart = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--map-root-user", "--net"]
    done = subprocess.run(
        [*apart, ROOT / "tools" / "docs.sh", made], capture_output=True, text=True, check=False, timeout=100
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return made


def test_both_languages_have_the_same_pages(site: Path) -> None:
    pages = [
        {path.relative_to(site / language) for path in (site / language).rglob("*.html")} for language in LANGUAGES
    ]
    assert pages[0] == pages[1]
    assert {Path("index.html"), Path("quickstart.html"), Path("ops/console.html"), Path("dev/cli.html")} <= pages[0]


def test_no_page_loads_anything_from_another_host(site: Path) -> None:
    pages = [site / "index.html", *(page for language in LANGUAGES for page in (site / language).rglob("*.html"))]
    elsewhere = [(page.name, address) for page in pages for address in Page(page).loaded if urlsplit(address).netloc]
    assert elsewhere == []
    styles = [(sheet.name, found) for sheet in site.rglob("*.css") for found in _find_loads(sheet)]
    assert styles == []


def _find_loads(sheet: Path) -> list[str]:
    return re.findall(r"(?:url\(|@import\s+)[\"']?((?:https?:)?//[^\"')]+)", sheet.read_text(encoding="utf-8"))


def test_every_link_within_the_site_leads_to_a_page_and_a_place_on_it(site: Path) -> None:
    places: dict[Path, set[str]] = {}
    broken = []
    for page in (
        page for language in LANGUAGES for page in (site / language).rglob("*.html") if page.name != "404.html"
    ):
        for link in Page(page).links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            target = target / "index.html" if target.is_dir() else target
            if target.suffix == ".html" and target.is_file() and target not in places:
                places[target] = set(re.findall(r'\bid="([^"]+)"', target.read_text(encoding="utf-8")))
            anchor = unquote(parts.fragment)
            if not target.is_file() or (anchor and not anchor.startswith("__") and anchor not in places[target]):
                broken.append((page.relative_to(site).as_posix(), link))
    assert broken == []


def test_a_page_switches_to_the_same_page_of_the_other_language(site: Path) -> None:
    switches = Page(site / "zh-Hans" / "ops" / "console.html").switches
    assert switches == {"en": "../../en/ops/console.html", "zh-Hans": "../../zh-Hans/ops/console.html"}


def test_diagrams_are_drawn_by_a_script_of_the_sites_own(site: Path) -> None:
    loaded = Page(site / "en" / "dev" / "states.html").loaded
    drawn = next(address for address in loaded if "mermaid" in address)
    assert (site / "en" / "dev" / drawn).resolve().is_file()
    assert not any("mermaid" in address for address in Page(site / "en" / "quickstart.html").loaded)


def test_a_line_of_the_source_that_ends_within_chinese_leaves_no_blank(site: Path) -> None:
    chinese = "[\u3000-\u303f\u4e00-\u9fff\uff00-\uffef]"
    for page in (site / "zh-Hans" / "ops").glob("*.html"):
        prose = re.sub(r"<pre.*?</pre>", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        assert re.findall(f"{chinese}\\n{chinese}", prose) == [], page.name


def test_a_link_to_nowhere_fails_the_build(tmp_path: Path) -> None:
    for name in ("docs", "tools/site", "tools/docs.sh", "mkdocs.yml", "mkdocs.zh-Hans.yml"):
        source, target = ROOT / name, tmp_path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if source.is_dir() else shutil.copy)(source, target)
    (tmp_path / ".venv").symlink_to(ROOT / ".venv")
    with (tmp_path / "docs/zh-Hans/index.md").open("a", encoding="utf-8") as page:
        page.write("\n[?](concepts.md#no-such-place)\n")
    done = subprocess.run([tmp_path / "tools/docs.sh"], capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 1
    assert "no-such-place" in done.stderr


def test_a_folder_that_holds_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    for name, cwd in ((str(tmp_path), ROOT), (tmp_path.name, tmp_path.parent)):
        done = subprocess.run(
            [ROOT / "tools" / "docs.sh", name], cwd=cwd, capture_output=True, text=True, check=False, timeout=100
        )
        assert done.returncode == 1
        assert "holds something else" in done.stderr
    assert (tmp_path / "thesis.txt").read_text() == "years of work"
