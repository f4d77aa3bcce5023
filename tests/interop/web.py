# SPDX-License-Identifier: Apache-2.0
"""Looks at the pages of web.sh with Chromium: web.py WORK SCREENSHOTS JOB_URL DDPRUN HANG_URL SUCCESS_URL FAILURE_URL
WAIT_URL LARGE_URL"""
import json
import os
import re
import signal
import sys
import urllib.request

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect, sync_playwright
from prometheus_client.openmetrics.parser import text_string_to_metric_families

work, screenshots, job_url, ddprun, hang_url, success_url, failure_url, wait_url, large_url = sys.argv[1:]
DEADLINE = 120_000  # of what is waited for: only a test that hangs reaches it
expect.set_options(timeout=DEADLINE)
PHONE = {"width": 390, "height": 844}
DESKTOP = {"width": 1280, "height": 900}
GREY_PART = """() => {  // of the picture of ranks over time
  const grid = document.getElementById("grid");
  const {data} = grid.getContext("2d").getImageData(0, 0, grid.width, grid.height);
  let clear = 0;
  for (let at = 3; at < data.length; at += 4) clear += data[at] === 0;
  return clear * 4 / data.length;
}"""
said = []  # by the browsers' consoles


def open_page(browser, url, viewport=DESKTOP, scheme="light"):
    page = browser.new_page(viewport=viewport, color_scheme=scheme, reduced_motion="reduce")
    page.set_default_timeout(DEADLINE)
    page.on("console", lambda message: said.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto(url)
    return page


def keep(page, name):
    page.screenshot(path=f"{screenshots}/{name}.png", full_page=True)


class EachView:
    """A page on a desktop and on a phone, light and dark, while the job goes through its states."""

    def __init__(self, browser, url):
        self.pages = {f"{name}-{scheme}": open_page(browser, url, viewport, scheme)
                      for name, viewport in (("desktop", DESKTOP), ("phone", PHONE)) for scheme in ("light", "dark")}

    def look(self, state, verdict, *, hidden=()):
        for name, page in self.pages.items():
            expect(page.locator("#verdict")).to_contain_text(verdict)
            for place in hidden:
                expect(page.locator(place)).to_be_hidden()
            wide = page.evaluate("document.documentElement.scrollWidth")
            assert wide <= page.viewport_size["width"], f"{state}, {name}: the page is {wide} pixels wide"
            check_accessible(page, f"{state}, {name}")
            keep(page, f"{state}-{name}")

    def close(self):
        for page in self.pages.values():
            page.close()


def check_accessible(page, what):
    found = Axe().run(page)
    assert found.violations_count == 0, f"{what}: {found.generate_report()}"


def get(url, path):
    address = re.sub(r"/\?", path + "?", url)
    with urllib.request.urlopen(address, timeout=DEADLINE / 1000) as answer:
        return answer.read().decode()


def samples(url):
    families = text_string_to_metric_families(get(url, "/metrics"))
    return {(sample.name, *sorted(sample.labels.items())): sample.value
            for family in families for sample in family.samples}


def look_at_job(browser):
    page = open_page(browser, job_url)
    verdict = page.locator("#verdict")
    expect(verdict).to_have_text("● round 0 runs with 3 ranks on 1 node")
    expect(page.locator("#rows tr")).to_have_count(3)
    expect(page.locator("#rows tr").nth(1)).to_contain_text("● running")
    assert page.title().endswith(": running"), page.title()
    # Nothing is empty: neither rows nor columns of the picture, nor columns of the table, nor boxes for text.
    assert page.evaluate("document.getElementById('grid').clientHeight") == 3 * 24
    assert page.evaluate(GREY_PART) < 0.5, page.evaluate(GREY_PART)
    expect(page.get_by_role("columnheader", name="Progress")).to_be_hidden()
    for box in "#log", "#stacks":
        expect(page.locator(box)).to_be_hidden()
    keep(page, "running")

    # A crash, and the restart after it.
    open(work + "/crash", "w").close()
    events = page.locator("#events")
    expect(events).to_contain_text("✕ rank 1 failed first: exit 1")
    expect(events).to_contain_text("RuntimeError: the loss is <img src=x onerror=alert(2)>")
    expect(events).to_contain_text("▶ round 1 runs with 3 ranks on 1 node")
    expect(verdict).to_have_text("● round 1 runs with 3 ranks on 1 node")
    expect(page.locator("#facts")).to_contain_text("1 of 1")
    values = samples(job_url)
    assert values[("ddprun_restarts_total",)] == 1, values
    assert values[("ddprun_failures_total", ("cause", "exit"))] == 1, values
    assert values[("ddprun_workers", ("state", "running"))] == 3, values
    assert sum(name[0] == "ddprun_worker_cpu_seconds_total" for name in values) == 3, values
    # The mark of the failure is beside that of the round which begins a moment later.
    places = page.evaluate("markPlaces((at) => 8 + 400 * at / history.seconds, 416)")
    assert all(b - a > 15 for a, b in zip(places, places[1:])), places
    keep(page, "restarted")

    # By keyboard alone: to the ranks, and to the last lines of one, which is text whatever it says.
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    for _ in range(20):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.ariaLabel") == "last lines of rank 1":
            break
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "log"
    expect(page.locator("#log")).to_contain_text("rank 1 begins <b onclick=alert(1)>round 1</b>")
    page.locator("#ask-stacks").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#stacks")).to_contain_text("rank")
    assert page.locator("main b, main img").count() == 0
    check_accessible(page, "a job")

    ranks = json.loads(get(job_url, "/api/status"))["nodes"][0]["ranks"]
    pid = next(rank["pid"] for rank in ranks if rank["rank"] == 2)
    os.kill(pid, signal.SIGSTOP)
    expect(verdict).to_have_text("▲ rank 2 is stopped by a signal")
    expect(page.locator("#rows .stopped")).to_contain_text("■ stopped")
    os.kill(pid, signal.SIGCONT)
    expect(verdict).to_have_text("● round 1 runs with 3 ranks on 1 node")

    phone = open_page(browser, job_url, PHONE)
    expect(phone.locator("#rows tr")).to_have_count(3)
    expect(phone.locator("#rows tr").nth(1)).to_contain_text("running")
    for cell in phone.locator("#rows td:visible, #rows th").all():
        box = cell.bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= PHONE["width"], (cell.inner_text(), box)
    caption = phone.locator("caption").bounding_box()
    assert caption["x"] + caption["width"] <= PHONE["width"], caption
    # Its pictures begin with the job, though the page is younger; then is paler.
    expect(phone.locator("#grid-note")).to_contain_text("From the start of the job")
    expect(phone.locator("#grid-note")).to_contain_text("paler before this page looked")
    assert phone.evaluate("span() >= status.seconds && columns.findIndex((one) => one) > 0")
    check_accessible(phone, "a job on a phone")
    keep(phone, "phone")
    phone.close()

    os.kill(int(ddprun), signal.SIGTERM)
    expect(verdict).to_have_text("▲ this node's ddprun was stopped by SIGTERM")
    expect(page.locator("#events")).to_contain_text("■ stopping 3 workers (SIGTERM)")
    expect(page.locator("#rows .ended")).to_have_count(3)
    assert page.title().startswith("▲ ") and page.title().endswith(": stopped"), page.title()
    keep(page, "stopped")
    page.close()


EMPTY_AT_THE_END = "#log-part", "#stacks-part", "th:text('CPU')", "th:text('Memory')", "th:text('Output')"


def look_at_success(browser):
    views = EachView(browser, success_url)
    page = views.pages["desktop-light"]
    expect(page.locator("#rows tr")).to_have_count(1)
    views.look("one-rank", "round 0 runs with 1 rank on 1 node")
    open(work + "/succeed", "w").close()
    views.look("succeeded", "✓ the job has succeeded", hidden=EMPTY_AT_THE_END)
    expect(page.locator("#rows .ended")).to_have_count(1)
    assert page.title() == "bash: succeeded", page.title()
    views.close()


def look_at_failure(browser):
    views = EachView(browser, failure_url)
    expect(views.pages["desktop-light"].locator("#rows tr")).to_have_count(8)
    open(work + "/fail", "w").close()
    views.look("failed", "▲ the job has failed: rank 5 failed first: exit 3", hidden=EMPTY_AT_THE_END[:3])
    page = views.pages["desktop-light"]
    expect(page.locator("#rows tr").nth(0)).to_contain_text("5vm✕ failed")
    # The picture of ranks over time ends with the failure, and only of this rank.
    failed = page.evaluate("columns.at(-1).map((state) => STATES[state].name === 'failed')")
    assert failed == [rank == 5 for rank in range(8)], failed
    views.close()


def look_at_wait(browser):
    views = EachView(browser, wait_url)
    views.look("waits", "● waits for 1 of 2 nodes", hidden=["#time-part", "#events-part", "#ranks", "#log-part", "#stacks-part"])
    views.close()


def look_at_hang(browser):
    page = open_page(browser, hang_url)
    expect(page.locator("#events")).to_contain_text("✕ no rank has made progress for")
    keep(page, "hang")
    assert samples(hang_url)[("ddprun_failures_total", ("cause", "hang"))] >= 1
    page.close()


def look_at_large_job(browser):
    for name, viewport, scheme in (("large", DESKTOP, "light"), ("large-dark", DESKTOP, "dark"),
                                   ("large-phone", PHONE, "light")):
        page = open_page(browser, large_url, viewport, scheme)
        expect(page.locator("#verdict")).to_contain_text("▲ no rank has made progress for 10 min")
        rows = page.locator("#rows tr")
        expect(rows).to_have_count(50)
        expect(rows.nth(0)).to_contain_text("✕ failed (exit 1)")
        expect(rows.nth(1)).to_contain_text("? unknown (no answer)")
        expect(page.locator("#facts")).to_contain_text("1000 (1 failed, 8 unknown, 1 stopped, 990 running)")
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= viewport["width"], f"{name}: the page is {wide} pixels wide"
        check_accessible(page, name)
        keep(page, name)
        page.close()
    page = open_page(browser, large_url)
    expect(page.locator("#events")).to_contain_text("✕ rank 7 failed first")
    places = page.evaluate("markPlaces((at) => 8 + 400 * at / span(), 416)")
    assert len(places) == 6 and places[0] == 8, places  # the picture has the marks of all events
    page.select_option("#order", "silent")
    expect(page.locator("#rows tr").nth(0)).to_contain_text("16 min ago")
    page.locator("#all").click()
    expect(page.locator("#rows tr")).to_have_count(1000)
    took = page.evaluate("""() => {
      const start = performance.now();
      for (let i = 0; i < 10; ++i) show({ history, status });
      return (performance.now() - start) / 10;
    }""")
    print(f"an update with 1000 ranks in the table takes {took:.1f} ms")
    page.close()


with sync_playwright() as playwright:
    browser = playwright.chromium.launch(executable_path="/usr/bin/chromium",
                                         args=["--no-sandbox", "--disable-dev-shm-usage"])
    look_at_job(browser)
    said = [line for line in said if "ERR_CONNECTION" not in line and "ERR_INCOMPLETE" not in line]
    look_at_success(browser)
    look_at_failure(browser)
    look_at_wait(browser)
    look_at_large_job(browser)
    look_at_hang(browser)
    assert said == [], said
    browser.close()
