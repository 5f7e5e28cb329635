"""The page that `make bench` writes: every part that was measured, in figures that can be read."""

import json
import pathlib

import pytest

from bench import burst, plan, report

TIMES = {"p50_ms": 1.25, "p99_ms": 3.5}
CPU = {"operator": 5.0, "kube-scheduler": 3.5, "kube-apiserver": 15.0, "etcd": 4.0}
BURST = {
    "name": "b binpack",
    "rate": 84.04,
    "floor": 115.0,
    "served_s": 6.0,
    "nodes_used": 7,
    "requests": 2.1,
    "conflicts": 3,
    "failed_binds": 0,
    "cpu_ms": CPU,
}
FOUND = {
    "machine": {
        "cpu": "a processor",
        "cores": 2,
        "memory_gib": 8.0,
        "python": "3.11.7",
        "loop_ms": 55,
    },
    "quick": False,
    "parts": {
        "bursts": {"rows": [BURST], "others_cores": 0.1},
        "freed": {
            "rows": [
                {
                    "waiting": 5,
                    "rounds": 200,
                    "stuck": 0,
                    "p50_s": 0.05,
                    "p99_s": 0.2,
                    "filters": 6.0,
                    "cpu_ms": 40.0,
                }
            ],
            "others_cores": 0.0,
        },
        "scraped": {
            "rows": [
                {
                    "nodes": 5000,
                    "pods": 50000,
                    "lines": 380028,
                    "size_mb": 70.51,
                    "first_s": 3.0,
                    "page_s": 0.5,
                    "cpu_s": 0.25,
                    "quiet": {"p50_ms": 10.0, "p99_ms": 20.0},
                    "scraped": {"p50_ms": 11.0, "p99_ms": 25.0},
                    "scrapes": 60,
                }
            ],
            "others_cores": 0.0,
        },
        "over http": {
            "rows": [
                {
                    "nodes": 5000,
                    "pods": 50000,
                    "asked": {"one container": TIMES},
                    "ready_s": 9.0,
                    "start_cpu_s": 8.0,
                    "memory_mib": 400.0,
                    "events_per_s": 500.0,
                    "cores_for_events": 0.2,
                    "empty": {"p50_ms": 2.0, "p99_ms": 3.0},
                    "busy": TIMES,
                    "longest_step_s": 0.02,
                    "last_node_s": 0.4,
                    "last_node_filters": 1.0,
                }
            ],
            "others_cores": 0.0,
        },
    },
}


def test_a_burst_is_set_beside_the_floor_of_its_run() -> None:
    line = "| b binpack | 84.0 | 115.0 | 73 % | 6.0 s | 7 | 2.10 | 3 | 0 | 5.0 ms |"
    assert line in report.page(FOUND)


def test_every_part_that_was_measured_is_on_the_page_and_no_other() -> None:
    page = report.page(FOUND)

    assert "| 200 | 0 | 0.050 s | 0.200 s |" in page
    assert "| 5,000 | 50,000 | 1.2 / 3.5 |" in page
    assert (
        "| 380,028 | 70.5 MB | 3.00 s | 0.50 s | 0.25 s | 10.0 / 20.0 | 11.0 / 25.0 | 1.25 |"
        in page
    )
    assert "## a:" not in page


def test_the_raw_figures_are_kept_and_a_partial_run_touches_no_document(
    tmp_path: pathlib.Path,
) -> None:
    report.write(FOUND, out=tmp_path, document=None)

    assert json.loads((tmp_path / "figures.json").read_text())["parts"].keys() == {
        "bursts",
        "freed",
        "over http",
        "scraped",
    }
    assert (tmp_path / "performance.md").read_text() == report.page(FOUND)


def test_every_part_has_its_writer() -> None:
    assert report.WRITERS.keys() == plan.PARTS.keys()


def test_the_rate_counts_until_the_last_pod_is_served() -> None:
    run = burst.Burst(
        pods=500,
        bound_s=4.0,
        served_s=5.0,
        floor=115.0,
        requests=2.0,
        conflicts=0,
        failed_binds=0,
        nodes_used=7,
        cpu_ms=CPU,
    )

    assert run.rate == pytest.approx(100.0)
