"""The Grafana dashboard and the alert rules: promtool, and the metrics and labels of a hub."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from grafana_foundation_sdk.cog import encoder, plugins
from grafana_foundation_sdk.models.dashboard import Dashboard
from tools.dashboard import ROWS, text
from tools.pages.http import families

from .shipped import DEPLOY, ROOT, documents

DASHBOARD = DEPLOY / "grafana" / "wirelake-hub.json"
ALERTS = DEPLOY / "prometheus" / "alerts.yaml"
RULES: dict[str, dict[str, Any]] = {
    rule["alert"]: rule for group in documents(ALERTS)[0]["groups"] for rule in group["rules"]
}
RUNBOOK = ROOT / "docs" / "guides" / "runbook.md"
BOARD: dict[str, Any] = json.loads(DASHBOARD.read_text(encoding="utf-8"))
OF_PROMETHEUS = {"job", "instance"}
"""Labels that Prometheus adds."""
HUB = 'job="wirelake", instance="hub-1:9680"'


def promtool(*words: str | Path) -> subprocess.CompletedProcess[str]:
    command = ["promtool", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def expressions() -> Iterator[tuple[str, str]]:
    """Every expression of the dashboard, with values for Grafana's variables, and its panel."""
    for panel in BOARD["panels"]:
        for target in panel.get("targets", ()):
            said = target["expr"].replace("$__rate_interval", "5m").replace("$__range", "6h")
            yield panel["title"], said.replace("$job", "wirelake").replace("$instance", ".+")


# -- metrics and labels ----------------------------------------------------------------------------


def series() -> dict[str, set[str]]:
    """Every series that a hub can have, with its labels."""
    found = {"up": set(OF_PROMETHEUS)}
    for each in families():
        labels = OF_PROMETHEUS | set(getattr(each, "_labelnames", ()))
        if each.type == "counter":
            found[f"{each.name}_total"] = labels
        elif each.type == "histogram":
            found[f"{each.name}_bucket"] = labels | {"le"}
            found[f"{each.name}_count"] = found[f"{each.name}_sum"] = labels
        else:
            found[each.name] = labels
    return found


SERIES = series()


def used(expression: str) -> tuple[set[str], set[str]]:
    """The metrics and the labels that an expression names."""
    metrics = set(re.findall(r"\b(?:wirelake_\w+|up)\b", re.sub(r'"[^"]*"', '""', expression)))
    labels = set(re.findall(r"(\w+)\s*[=!]~?\s*\"", expression))
    for listed in re.findall(r"\bby \(([^)]*)\)", expression):
        labels |= {each.strip() for each in listed.split(",")}
    return metrics, labels


def known(expression: str, also: set[str]) -> None:
    metrics, labels = used(expression)
    assert metrics, expression
    assert metrics <= SERIES.keys(), metrics - SERIES.keys()
    for name in metrics:
        assert labels | also <= SERIES[name], (expression, labels | also, name)


def test_metrics_and_labels_of_panels_exist() -> None:
    for panel in BOARD["panels"]:
        for target in panel.get("targets", ()):
            known(target["expr"], set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])))
    for each in BOARD["templating"]["list"]:
        if each["type"] == "query":
            found = re.fullmatch(r"label_values\((\w+).*, (\w+)\)", each["query"])
            assert found is not None
            assert found[2] in SERIES[found[1]]


@pytest.mark.parametrize("alert", RULES)
def test_metrics_and_labels_of_alerts_exist(alert: str) -> None:
    rule = RULES[alert]
    known(rule["expr"], set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"])))


def test_the_check_of_names_can_fail() -> None:
    with pytest.raises(AssertionError):
        known("rate(wirelake_publishes_total[5m])", set())
    with pytest.raises(AssertionError):
        known('rate(wirelake_dead_letters_total{protocol="tny"}[5m])', set())
    with pytest.raises(AssertionError):
        known("sum by (reason) (wirelake_connections)", set())


def test_every_metric_is_on_the_dashboard() -> None:
    shown = {name for _, said in expressions() for name in used(said)[0]}
    whole = {re.sub("_(bucket|count|sum)$", "", name) for name in shown}
    wanted = {re.sub("_(bucket|count|sum)$", "", name) for name in SERIES} - {"up"}
    assert wanted - whole == set()


# -- the dashboard ---------------------------------------------------------------------------------


def test_the_dashboard_is_the_one_that_the_tool_writes() -> None:
    assert DASHBOARD.read_text(encoding="utf-8") == text(), "run `make pages`"


def lost(before: Any, after: Any, path: str = "") -> list[str]:
    """The paths of values that differ or are missing in `after`."""
    if isinstance(before, dict) and isinstance(after, dict):
        return [
            each
            for key, value in before.items()
            for each in lost(value, after.get(key, "missing"), f"{path}.{key}")
        ]
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        pairs = enumerate(zip(before, after, strict=True))
        return [each for at, pair in pairs for each in lost(*pair, f"{path}[{at}]")]
    return [] if before == after else [path]


def read_by_grafana(board: dict[str, Any]) -> Any:
    """The dashboard after Grafana's own models have read and written it."""
    plugins.register_default_plugins()
    return json.loads(json.dumps(Dashboard.from_json(board), cls=encoder.JSONEncoder))


def test_the_dashboard_fits_the_models_of_grafana() -> None:
    assert lost(BOARD, read_by_grafana(BOARD)) == []
    wrong = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    wrong["panels"][1]["fieldConfig"]["defaults"]["units"] = "s"
    assert lost(wrong, read_by_grafana(wrong)) == [".panels[1].fieldConfig.defaults.units"]


def test_panels_have_ids_of_their_own_and_do_not_overlap() -> None:
    ids = [each["id"] for each in BOARD["panels"]]
    assert len(set(ids)) == len(ids)
    taken: set[tuple[int, int]] = set()
    for panel in BOARD["panels"]:
        at = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert at["x"] + at["w"] <= 24
        assert not cells & taken, panel["title"]
        taken |= cells
    rows = [each["title"] for each in BOARD["panels"] if each["type"] == "row"]
    assert rows == list(ROWS)


def test_prometheus_parses_every_expression_of_the_dashboard(tmp_path: Path) -> None:
    rules = [{"record": f"panel:{at}", "expr": said} for at, (_, said) in enumerate(expressions())]
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    found = promtool("check", "rules", file)
    assert found.returncode == 0, found.stdout + found.stderr
    assert f"{len(rules)} rules found" in found.stdout
    file.write_text(file.read_text().replace("histogram_quantile(0.5,", "histogram_quantile("))
    assert promtool("check", "rules", file).returncode != 0


# -- the alerts ------------------------------------------------------------------------------------


def test_prometheus_accepts_the_rules(tmp_path: Path) -> None:
    found = promtool("check", "rules", ALERTS)
    assert found.returncode == 0, found.stdout + found.stderr
    wrong = tmp_path / "alerts.yaml"
    wrong.write_text(ALERTS.read_text(encoding="utf-8").replace("for: 2m", "for: two minutes", 1))
    assert promtool("check", "rules", wrong).returncode != 0


@pytest.mark.parametrize("alert", RULES)
def test_every_alert_has_a_severity_and_a_section_of_the_runbook(alert: str) -> None:
    rule = RULES[alert]
    assert rule["labels"]["severity"] in {"critical", "warning", "info"}
    page, _, section = rule["annotations"]["runbook_url"].partition("#")
    assert page.endswith("/guides/runbook.html")
    assert section == alert.lower()  # the id that Sphinx gives to the heading
    assert RUNBOOK.read_text(encoding="utf-8").count(f"\n### {alert}\n") == 1


def test_the_runbook_has_no_alert_that_does_not_exist() -> None:
    titles = re.findall(r"(?m)^### (Wirelake\w+)$", RUNBOOK.read_text(encoding="utf-8"))
    assert sorted(titles) == sorted(RULES)


class Case(NamedTuple):
    """What Prometheus sees, and what an alert makes of it."""

    alert: str
    series: dict[str, str]
    """Values of each series, one per minute; names without `wirelake_`, labels without those of the
    hub."""
    at: str
    labels: dict[str, str] | None = None
    """Of the alert that fires, without those of the hub; None: it does not fire."""
    summary: str = ""


H = "hub-1:9680"
DAY = 24 * 60
CASES = [
    Case("WirelakeHubDown", {"up": "1x5 0x5"}, "9m", {}, f"{H} does not answer Prometheus"),
    Case("WirelakeHubDown", {"up": "1x5 0 1x5"}, "9m"),
    Case("WirelakeHubRestarts", {"uptime_seconds": "5+60x9 5+60x9 5+60x5 5+60x5"}, "31m", {},
         f"{H} was restarted 3 times within 30 minutes"),
    Case("WirelakeHubRestarts", {"uptime_seconds": "5+60x9 5+60x30"}, "31m"),
    Case("WirelakeHubDraining", {"draining": "0 1x9"}, "8m", {},
         f"{H} has been shutting down for five minutes"),
    Case("WirelakeHubDraining", {"draining": "0 1x3 0x9"}, "8m"),
    Case("WirelakeMemoryForPeers", {"buffered_bytes": "536870912x9"}, "8m", {},
         f"{H} keeps 512MiB for slow peers"),
    Case("WirelakeMemoryForPeers", {"buffered_bytes": "400000000x9"}, "8m"),
    Case("WirelakeStoreFails", {'store_failures_total{operation="write"}': "0x5 1+5x9"}, "9m",
         {"operation": "write"}, f"{H} cannot write its store"),
    Case("WirelakeStoreFails", {'store_failures_total{operation="write"}': "7x30"}, "20m"),
    Case("WirelakeStoreGrows",
         {"store_bytes": f"2e9x{DAY} 6e9x60", "store_free_bytes": f"0x{DAY + 60}"}, f"{DAY + 40}m",
         {}, f"the store of {H} has grown to 6GB within a day"),
    Case("WirelakeStoreGrows",  # as large, but free
         {"store_bytes": f"2e9x{DAY} 6e9x60", "store_free_bytes": f"0x{DAY} 4e9x60"},
         f"{DAY + 40}m"),
    Case("WirelakeWriteAheadLogLarge", {"store_wal_bytes": "2e9x30"}, "20m", {},
         f"the write-ahead log of {H} has 2GB"),
    Case("WirelakeWriteAheadLogLarge", {"store_wal_bytes": "2e9x9 4e6x30"}, "20m"),
    Case("WirelakePublishesRefused", {"publishes_refused_total": "0+3x20"}, "12m", {},
         f"{H} refuses publishes"),
    Case("WirelakePublishesRefused", {"publishes_refused_total": "9x20"}, "12m"),
    Case("WirelakeDeadLetters", {'dead_letters_total{reason="quota"}': "1x5 2x100"}, "30m",
         {"reason": "quota"}, f"notifications became dead letters at {H}: quota"),
    Case("WirelakeDeadLetters", {'dead_letters_total{reason="quota"}': "_x90 1x30"}, "95m",
         {"reason": "quota"}, f"notifications became dead letters at {H}: quota"),
    Case("WirelakeDeadLetters", {'dead_letters_total{reason="quota"}': "4x200"}, "180m"),
    Case("WirelakeTransientSkipped", {'skipped_total{protocol="comet"}': "0+60x40"}, "30m",
         {"protocol": "comet"},
         f"comet clients of {H} read too slowly for transient notifications"),
    Case("WirelakeTransientSkipped", {'skipped_total{protocol="comet"}': "60x40"}, "30m"),
    Case("WirelakeServiceRaises",
         {'calls_total{protocol="tny", outcome="internal"}': "_x20 1x30"}, "25m",
         {"protocol": "tny", "outcome": "internal"},
         f"a service of {H} raises exceptions (tny)"),
    Case("WirelakeServiceRaises", {'calls_total{protocol="tny", outcome="ok"}': "0+60x40"}, "30m"),
    Case("WirelakeCallsSlow",
         {'call_seconds_bucket{target="a", le="1"}': "0+1x40",
          'call_seconds_bucket{target="a", le="4"}': "0+100x40",
          'call_seconds_bucket{target="a", le="+Inf"}': "0+100x40"}, "30m",
         {"target": "a"}, f"p99 of a at {H} is 3.97s"),
    Case("WirelakeCallsSlow",
         {'call_seconds_bucket{target="a", le="1"}': "0+100x40",
          'call_seconds_bucket{target="a", le="+Inf"}': "0+100x40"}, "30m"),
    Case("WirelakeCallsHang", {"calls_running": "0+5x60"}, "40m", {},
         f"{H} has 200 running calls, and more every minute"),
    Case("WirelakeCallsHang", {"calls_running": "200x60"}, "40m"),
    Case("WirelakeConnectionsRefused",
         {'connections_refused_total{limit="connections"}': "_x20 1x9"}, "22m",
         {"limit": "connections"}, f"{H} refuses connections: connections"),
    Case("WirelakeConnectionsRefused",
         {'connections_refused_total{limit="connections"}': "8x60"}, "40m"),
    Case("WirelakeAcceptFails",
         {'accept_errors_total{protocol="esnp", error="EMFILE"}': "_x20 1x9"}, "22m",
         {"protocol": "esnp", "error": "EMFILE"}, f"{H} cannot accept esnp connections: EMFILE"),
    Case("WirelakeAcceptFails",
         {'accept_errors_total{protocol="esnp", error="EMFILE"}': "8x60"}, "40m"),
    Case("WirelakePeersDropped",
         {'connections_dropped_total{protocol="comet", reason="slow_reader"}': "0+60x60"}, "30m",
         {"protocol": "comet", "reason": "slow_reader"},
         f"{H} aborts comet connections: slow_reader"),
    Case("WirelakePeersDropped",
         {'connections_dropped_total{protocol="comet", reason="slow_reader"}': "0+1x60"}, "30m"),
    Case("WirelakeHandshakesFail",
         {'handshake_failures_total{protocol="esnp", reason="tls"}': f"0+6x{DAY} {6 * DAY}+600x60"},
         f"{DAY + 30}m", {"protocol": "esnp"}, f"TLS handshakes of esnp fail at {H}"),
    Case("WirelakeHandshakesFail",
         {'handshake_failures_total{protocol="esnp", reason="tls"}': f"0+600x{DAY + 60}"},
         f"{DAY + 30}m"),
    Case("WirelakeSignOnsFail",
         {'auth_failures_total{protocol="tny"}': f"0+6x{DAY} {6 * DAY}+600x60"}, f"{DAY + 30}m",
         {"protocol": "tny"}, f"many tny sign-ons fail at {H}"),
    Case("WirelakeSignOnsFail", {'auth_failures_total{protocol="tny"}': f"0+600x{DAY + 60}"},
         f"{DAY + 30}m"),
    Case("WirelakeProtocolErrors",
         {'protocol_failures_total{protocol="tny", code="short"}': f"0+6x{DAY} {6 * DAY}+600x60"},
         f"{DAY + 30}m", {"protocol": "tny", "code": "short"},
         f"tny peers of {H} send errors: short"),
    Case("WirelakeProtocolErrors",
         {'protocol_failures_total{protocol="tny", code="short"}': f"0+600x{DAY + 60}"},
         f"{DAY + 30}m"),
    Case("WirelakeRecordingFails", {"recording_failed": "1x9"}, "5m", {},
         f"{H} cannot write its recording"),
    Case("WirelakeRecordingFails", {"recording_failed": "0x9"}, "5m"),
    Case("WirelakeRecordingLoses", {"recording_lost_total": "0x10 15x20"}, "15m", {},
         f"{H} has not recorded 15 frames"),
    Case("WirelakeRecordingLoses", {"recording_lost_total": "15x60"}, "40m"),
]  # fmt: skip


def as_test(case: Case) -> dict[str, Any]:
    """A case as promtool reads it."""
    given = []
    for name, values in case.series.items():
        name, _, labels = name.partition("{")  # noqa: PLW2901
        full = name if name == "up" else f"wirelake_{name}"
        inside = ", ".join(filter(None, (HUB, labels.rstrip("}"))))
        given.append({"series": f"{full}{{{inside}}}", "values": values})
    rule = RULES[case.alert]
    fired = {
        "exp_labels": {
            "job": "wirelake",
            "instance": H,
            "severity": rule["labels"]["severity"],
            **(case.labels or {}),
        },
        "exp_annotations": {**rule["annotations"], "summary": case.summary},
    }
    return {
        "interval": "1m",
        "input_series": given,
        "alert_rule_test": [
            {
                "eval_time": case.at,
                "alertname": case.alert,
                "exp_alerts": [] if case.labels is None else [fired],
            }
        ],
    }


def run_cases(cases: list[Case], folder: Path) -> subprocess.CompletedProcess[str]:
    file = folder / "tests.yaml"
    said = {"rule_files": [str(ALERTS)], "tests": [as_test(each) for each in cases]}
    file.write_text(yaml.safe_dump(said))
    return promtool("test", "rules", file)


def test_alerts_fire_when_they_should_and_only_then(tmp_path: Path) -> None:
    for alert in RULES:
        mine = [each for each in CASES if each.alert == alert]
        assert {each.labels is None for each in mine} == {True, False}, alert
    found = run_cases(CASES, tmp_path)
    assert found.returncode == 0, found.stdout + found.stderr
    turned = [each._replace(labels=None if each.labels is not None else {}) for each in CASES]
    found = run_cases(turned, tmp_path)
    failures = re.findall(r"alertname: (\w+), time: ", found.stdout + found.stderr)
    assert len(failures) == len(CASES)


def test_a_job_that_is_gone_is_an_alert(tmp_path: Path) -> None:
    case = as_test(Case("WirelakeHubDown", {"draining": "0x9"}, "5m", {}))
    fired = case["alert_rule_test"][0]["exp_alerts"][0]
    del fired["exp_labels"]["instance"]
    fired["exp_annotations"]["summary"] = "no hub answers Prometheus"
    file = tmp_path / "tests.yaml"
    file.write_text(yaml.safe_dump({"rule_files": [str(ALERTS)], "tests": [case]}))
    found = promtool("test", "rules", file)
    assert found.returncode == 0, found.stdout + found.stderr
