"""The report as a reader has it: in a real headless Chromium, clicked, hovered, typed, printed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from analysis.__main__ import main
from analysis.facts import tidy
from analysis.load import load
from analysis.metrics import compute_all
from analysis.report_data import report_data
from analysis.report_page import report_page
from jobs.records import Latency
from tests.analysis_runs import completed_run, outcome, point, run_json, write_run
from tests.browser import PHONE, Watched, chromium, needs_browser
from tests.report_runs import add_series, add_start_up, five_shapes, hostile_run, rehearsal_run

pytestmark = [pytest.mark.browser, needs_browser]

ROWS = "#table tbody tr"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One browser for all tests."""
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The five published shapes, one row INVALID."""
    folder = tmp_path_factory.mktemp("report")
    runs, target = five_shapes(folder / "runs"), folder / "report.html"
    assert main(["report", str(runs), "--out", str(target)]) == 0
    return target


@pytest.fixture
def watched(browser: Browser, report: Path) -> Iterator[Watched]:
    """That page, open on a desktop, without network."""
    opened = Watched(browser)
    opened.open(report)
    yield opened
    assert opened.errors == []
    opened.context.close()


def marks(page: Page, plot: str) -> int:
    """How many measured points a plot says it has."""
    label = page.locator(f"#{plot} svg").first.get_attribute("aria-label") or ""
    return int(label.split(": ")[1].split(" ")[0])


def column(page: Page, name: str) -> list[str]:
    """The shown cells of one column."""
    names = page.locator("#table thead th").evaluate_all("all => all.map(e => e.dataset.name)")
    place = names.index(name) + 1
    return page.locator(f"{ROWS} td:nth-child({place})").all_inner_texts()


def count(page: Page) -> str:
    """What the page says it shows."""
    return page.locator("#count").inner_text().split(" points")[0]


def test_it_opens_without_asking_for_anything(watched: Watched, report: Path) -> None:
    assert watched.requests == [report.resolve().as_uri()]
    assert watched.page.locator("#pareto svg").count() == 1


def test_the_invalid_row_is_in_the_table_but_in_no_plot(watched: Watched) -> None:
    page = watched.page
    assert count(page) == "39 of 39"
    assert marks(page, "ttft") == marks(page, "tpot") == 38
    assert marks(page, "pareto") == 38 + 39
    page.get_by_label("published reference").uncheck()
    assert marks(page, "pareto") == 38


def test_a_topology_that_is_switched_off_leaves_plots_and_table(watched: Watched) -> None:
    page = watched.page
    page.locator("#series label", has_text="dep8_prefill5x2").click()
    assert marks(page, "ttft") == 31
    assert count(page) == "32 of 39"
    assert "dep8_prefill5x2" not in column(page, "topology")
    page.locator("#series button", has_text="none").click()
    assert marks(page, "ttft") == 0
    assert "No point to draw" in page.locator("#pareto-note").inner_text()
    page.locator("#series button", has_text="all").click()
    assert count(page) == "39 of 39"


def test_the_denominator_changes_what_is_drawn_and_idle_gpus_cost(watched: Watched) -> None:
    page = watched.page
    assert "total tok/s per serving GPU" in (page.locator("#pareto svg").text_content() or "")
    page.get_by_label("allocated GPU", exact=True).check()
    assert "total tok/s per allocated GPU" in (page.locator("#pareto svg").text_content() or "")
    assert "Converted here" in page.locator("#pareto-note").inner_text()
    page.get_by_label("decode GPU", exact=True).check()
    assert "output tok/s per decode GPU" in (page.locator("#pareto svg").text_content() or "")
    assert marks(page, "pareto") == 38
    assert "no figure per GPU of one role" in page.locator("#pareto-note").inner_text()


def test_the_latency_statistic_can_be_chosen(watched: Watched) -> None:
    page = watched.page
    page.get_by_label("Latency", exact=True).select_option("p99")
    assert "TTFT 99th percentile, ms" in (page.locator("#ttft svg").text_content() or "")


def test_a_heading_sorts_best_first_then_the_other_way(watched: Watched) -> None:
    page = watched.page
    heading = page.locator('th[data-name="total_tps_per_gpu"] button')
    heading.click()
    shown = [float(text.replace(",", "")) for text in column(page, "total_tps_per_gpu")]
    assert shown == sorted(shown, reverse=True)
    assert page.locator('th[aria-sort="descending"]').get_attribute("data-name") == (
        "total_tps_per_gpu"
    )
    page.keyboard.press("Enter")
    shown = [float(text.replace(",", "")) for text in column(page, "total_tps_per_gpu")]
    assert shown == sorted(shown)


def test_rows_are_found_by_text_and_by_verdict(watched: Watched) -> None:
    page = watched.page
    page.get_by_label("Find").fill("timeout")
    assert count(page) == "1 of 39"
    page.get_by_label("Find").fill("")
    page.locator("#verdicts label", has_text="INVALID").click()
    assert count(page) == "38 of 39"
    assert set(column(page, "verdict")) == {"VALID"}


def test_a_verdict_opens_its_reasons(watched: Watched) -> None:
    page = watched.page
    page.get_by_role("button", name="INVALID").click()
    assert "3 of 40960 requests failed; 3 x TimeoutError" in page.locator("tr.why").inner_text()
    page.get_by_role("button", name="INVALID").click()
    assert page.locator("tr.why").count() == 0


def test_pointing_at_a_mark_tells_its_figures(watched: Watched) -> None:
    page = watched.page
    plot = page.locator("#ttft svg")
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    path = page.locator("#ttft path.mark").first.get_attribute("d") or ""
    x, y = (float(part) for part in path[1:].split("a")[0].split(" "))
    assert box is not None
    page.mouse.move(box["x"] + x + 5, box["y"] + y)
    tip = page.locator("#ttft .tip").inner_text()
    assert "dep8_prefill" in tip
    assert "tok/s/GPU; this is 95 % of it" in tip
    page.mouse.move(box["x"] + 2, box["y"] + 2)
    assert page.locator("#ttft .tip").is_hidden()


def test_the_arrow_keys_go_from_mark_to_mark(watched: Watched) -> None:
    page = watched.page
    page.locator("#tpot svg").focus()
    page.keyboard.press("ArrowRight")
    assert "concurrency 64" in page.locator("#tpot .tip").inner_text()
    for _ in range(5):
        page.keyboard.press("ArrowRight")
    assert "concurrency 128" in page.locator("#tpot .tip").inner_text()
    page.keyboard.press("Escape")
    assert page.locator("#tpot .tip").is_hidden()


def test_a_column_can_be_added(watched: Watched) -> None:
    page = watched.page
    page.locator("#chooser summary").click()
    page.locator("#columns label", has_text="input range").click()
    assert set(column(page, "input_range")) == {"6553..8192"}


def test_a_phone_scrolls_the_table_and_not_the_page(browser: Browser, report: Path) -> None:
    opened = Watched(browser, PHONE, has_touch=True)
    page = opened.open(report)
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE[0]
    inner, outer = page.evaluate(
        "(e => [e.scrollWidth, e.clientWidth])(document.querySelector('#table'))"
    )
    assert outer < PHONE[0] < inner
    assert page.locator("#pareto svg text").first.evaluate("e => getComputedStyle(e).fontSize") == (
        "12px"
    )
    opened.context.close()


def test_paper_has_every_row_in_black_on_white_and_no_controls(
    browser: Browser, tmp_path: Path, report: Path
) -> None:
    opened = Watched(browser, color_scheme="dark")
    page = opened.open(report)
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(21, 24, 28)"
    page.emulate_media(media="print")
    page.wait_for_selector("body.printing")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
    assert page.locator(ROWS).count() == 39
    assert page.locator("#table thead button").count() == 0
    assert not page.locator("#find").is_visible()
    assert page.locator("details.reason[open]").count() == 1
    assert page.pdf(prefer_css_page_size=True).startswith(b"%PDF")
    page.emulate_media(media="screen")
    page.wait_for_selector("body:not(.printing)")
    opened.context.close()


def test_a_finger_hits_what_it_aims_at_and_rows_keep_their_names(
    browser: Browser, report: Path
) -> None:
    opened = Watched(browser, PHONE, has_touch=True, is_mobile=True)
    page = opened.open(report)
    small = page.locator("label.tick, select, button, summary, input[type=search]").evaluate_all(
        "all => all.map(e => [e.textContent, e.getBoundingClientRect()])"
        ".filter(([, box]) => box.width && (box.height < 32 || box.width < 32))"
        ".map(([words, box]) => `${words}: ${box.width} x ${box.height}`)"
    )
    assert small == []
    page.locator("#table").evaluate("e => { e.scrollLeft = 900; }")
    left = page.locator("#table").evaluate("e => e.getBoundingClientRect().left")
    cells = page.locator(f"{ROWS}:first-child td.naming")
    assert cells.all_inner_texts() == ["dep8_prefill4x2", "64"]
    assert abs(cells.first.evaluate("e => e.getBoundingClientRect().left") - left) <= 2
    opened.context.close()


def test_every_plot_says_what_its_marks_are(watched: Watched) -> None:
    page = watched.page
    keys = page.locator("#pareto-note .key").all_inner_texts()
    assert len(keys) == 10
    assert keys[0].strip() == "dep8_prefill4x2"
    assert keys[-1].strip() == "published dep8_prefill8x2"
    page.locator("#series label", has_text="dep8_prefill5x2").click()
    shown = [key.strip() for key in page.locator("#ttft-note .key").all_inner_texts()]
    assert shown == [f"dep8_prefill{n}x2" for n in (4, 6, 7, 8)]


def test_hostile_names_stay_text(browser: Browser, tmp_path: Path) -> None:
    target = tmp_path / "report.html"
    assert main(["report", str(hostile_run(tmp_path)), "--out", str(target)]) == 0
    opened = Watched(browser)
    page = opened.open(target)
    assert page.evaluate("typeof window.hacked") == "undefined"
    assert page.locator("img").count() == 0
    assert page.locator("script").count() == 2
    assert "</script><script>" in page.locator("#table").inner_text()
    page.get_by_role("button", name="INVALID").click()
    assert "<img src=x" in page.locator("tr.why").inner_text()
    assert opened.requests == [target.resolve().as_uri()]
    assert opened.errors == []
    opened.context.close()


def test_a_script_that_got_in_all_the_same_would_not_run(watched: Watched) -> None:
    watched.page.evaluate(
        "(() => { const s = document.createElement('script'); s.textContent = 'window.hacked = 1';"
        " document.body.append(s); })()"
    )
    assert watched.page.evaluate("typeof window.hacked") == "undefined"
    assert "Content Security Policy" in watched.errors.pop()


def test_a_rehearsal_cannot_be_missed(browser: Browser, tmp_path: Path) -> None:
    target = tmp_path / "report.html"
    main(["report", str(rehearsal_run(tmp_path)), "--out", str(target)])
    opened = Watched(browser, PHONE)
    page = opened.open(target)
    assert page.title().startswith("REHEARSAL")
    page.mouse.wheel(0, 2000)
    assert page.locator(".banner").is_visible()
    assert page.locator(".banner").evaluate("e => e.getBoundingClientRect().top") == 0
    for plot in ("pareto", "ttft", "tpot"):
        assert page.locator(f"#{plot} text.watermark").text_content() == "REHEARSAL"
    opened.context.close()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of one run with start-up, series and a bottleneck."""
    folder = tmp_path_factory.mktemp("whole")
    run = completed_run(folder / "r")
    add_start_up(run)
    add_series(run)
    loaded = load([run])
    frame = compute_all(tidy(loaded))
    frame = frame.assign(bottleneck="prefill", bottleneck_evidence="prefill busy 100%, 7 waiting")
    target = folder / "report.html"
    page = report_page(report_data(loaded, frame), frame, "whole", "now")
    target.write_text(page, encoding="utf-8")
    return target


def test_a_bottleneck_is_a_letter_that_tells_its_evidence(browser: Browser, whole: Path) -> None:
    opened = Watched(browser)
    page = opened.open(whole)
    cell = page.locator("#bottleneck td.cell")
    assert cell.inner_text() == "P"
    cell.hover()
    assert "prefill busy 100%, 7 waiting" in page.locator("#bottleneck-tip").inner_text()
    page.mouse.move(2, 2)
    assert page.locator("#bottleneck-tip").is_hidden()
    cell.focus()
    assert page.locator("#bottleneck-tip").is_visible()
    page.locator("#bottleneck-evidence summary").click()
    told = page.locator("#bottleneck-evidence li").inner_text()
    assert told.endswith("concurrency 64: prefill (prefill busy 100%, 7 waiting)")
    assert opened.errors == []
    opened.context.close()


def test_start_up_names_the_slowest_and_series_have_their_points(
    browser: Browser, whole: Path
) -> None:
    opened = Watched(browser, PHONE, has_touch=True)
    page = opened.open(whole)
    note = page.locator("#startup-note").inner_text()
    assert "Slowest: decode0 on n2, ready after 9.0 s" in note
    assert page.locator("#startup rect.phase").count() == 10
    letters = page.locator("#startup text.letter").all_text_contents()
    assert letters[-1] == "R"
    assert set(letters) <= {"L", "I", "W", "K", "R"}
    page.locator("#startup svg > g").last.tap()
    assert page.locator("#startup .tip").inner_text().startswith("decode0 on n2\nlaunch 2.0 s\n")
    page.locator("#times h4").first.tap()
    assert page.locator("#startup .tip").is_hidden()
    path = page.locator("#times path.mark").first.get_attribute("d") or ""
    x, y = (float(part) for part in path[1:].split("a")[0].split(" "))
    page.locator("#times svg[role=img]").first.tap(position={"x": x, "y": y})
    assert "Requests running" in page.locator("#times .tip:visible").inner_text()
    page.locator("#startup-seconds summary").tap()
    assert page.locator("#startup-table tbody td.most").last.inner_text() == "9.0"
    assert page.locator("#times svg[role=img]").count() == 2
    assert page.locator("#times text.band-name").all_text_contents() == ["c64", "c64"]
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE[0]
    opened.context.close()


def test_without_scripts_the_rows_are_there_and_no_dead_controls(
    browser: Browser, report: Path
) -> None:
    opened = Watched(browser, PHONE, java_script_enabled=False)
    opened.page.goto(report.resolve().as_uri())
    notice = opened.page.locator("noscript p.notice")
    assert notice.is_visible()
    assert notice.inner_text().startswith("Scripts are switched off here: no plots")
    assert opened.page.locator("noscript tbody tr").count() == 39
    assert opened.page.locator("noscript td").first.is_visible()
    assert not opened.page.locator("main").is_visible()
    assert opened.errors == []
    opened.context.close()


def test_repeats_are_one_point_with_its_interval_and_small_marks(
    browser: Browser, tmp_path: Path
) -> None:
    """Medians of 400, 500 and 600 ms: 500 with half an interval of 4.303 * 100 / sqrt(3)."""
    records = [
        point("r", index=n, repeat=n, name=f"c64-repeat{n + 1}",
              ttft_ms=Latency(mean=ttft, median=ttft, p90=ttft, p99=ttft))
        for n, ttft in enumerate((400.0, 500.0, 600.0))
    ]  # fmt: skip
    home = write_run(tmp_path / "r", run_json("r"), records, end=outcome("r"))
    target = tmp_path / "report.html"
    assert main(["report", str(home), "--out", str(target)]) == 0
    opened = Watched(browser)
    page = opened.open(target)
    assert marks(page, "ttft") == marks(page, "pareto") == 1
    assert "the point is their mean" in page.locator("#ttft-note").inner_text()
    small = page.locator("#ttft path.mark.repeat").get_attribute("d") or ""
    assert small.count("M") == 3
    assert page.locator("#ttft path.error").get_attribute("d")
    page.locator("#ttft svg").focus()
    page.keyboard.press("ArrowRight")
    told = page.locator("#ttft .tip").inner_text()
    assert "mean of 3 repeats" in told
    assert "500.0 \u00b1 248.4 ms" in told
    assert column(page, "repeat") == ["1", "2", "3"]
    assert opened.errors == []
    opened.context.close()


def test_runs_of_one_shape_are_told_apart_though_a_rehearsal_has_another(
    browser: Browser, tmp_path: Path
) -> None:
    """Two deployments that differ in one flag have every option's name in common: series by run."""
    for name in ("r1", "r2"):
        write_run(tmp_path / name, run_json(name), [point(name)], end=outcome(name))
    rehearsal_run(tmp_path)
    target = tmp_path / "report.html"
    assert main(["report", str(tmp_path), "--out", str(target)]) == 0
    opened = Watched(browser)
    page = opened.open(target)
    assert page.locator("#colour-by").input_value() == "run"
    assert opened.errors == []
    opened.context.close()


def test_ticks_say_where_they_are(watched: Watched) -> None:
    """Every label is its own place on the axis: 2.5 is never written as 3."""
    texts = watched.page.evaluate(
        "[8, 7.6, 20, 0.3, 1100].map((most) => linear([most], 0, 300, 60).ticks"
        ".map((tick) => [tick.v, Number(tick.text.replace(/,/g, ''))]))"
    )
    assert all(abs(v - told) < 1e-9 for ticks in texts for v, told in ticks)
    assert [v for v, _ in texts[0]] == [0, 2, 4, 6, 8, 10]
    narrow = watched.page.evaluate("linear([6.9], 0, 220, 64).ticks.map((tick) => tick.text)")
    assert narrow == ["0.0", "2.5", "5.0", "7.5"]
