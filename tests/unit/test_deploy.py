"""The files of deploy/ say what Holdfast, systemd and Kubernetes understand."""

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from holdfast.cli.main import app
from holdfast.node.port_table import AGENT, AUTHORITY, host_ports
from means import ROOT, missing

DEPLOY = ROOT / "deploy"
FILES = sorted(path for path in DEPLOY.rglob("*") if path.is_file())
UNITS = [path for path in FILES if path.suffix == ".service"]
MANIFESTS = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
INSTALLED = "/opt/holdfast/bin/holdfast"
BASE = 7400
TYPED = re.compile(rf"(?:(?<![\w./=-])holdfast|{INSTALLED}) ([a-z].*)")
LIST = re.compile(r'\["holdfast",.*\]')
MACHINE = {
    "agent": BASE + AGENT,
    "host": host_ports(BASE, 0).native,
    "heartbeats": host_ports(BASE, 0).heartbeats,
    "http": host_ports(BASE, 0).http,
}


def commands() -> list[list[str]]:
    """Every `holdfast ...` in the files, as words."""
    found = []
    for path in FILES:
        for line in path.read_text(encoding="utf-8").splitlines():
            found += [json.loads(each)[1:] for each in LIST.findall(line)]
            for each in TYPED.findall(line):
                found.append(shlex.split(re.split(r"`| \|\| | && |;", each)[0]))
    return found


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_a_command_is_one_that_exists_with_its_options(words: list[str]) -> None:
    called, _, _ = app.parse_args(words, exit_on_error=False, print_error=False)
    assert callable(called)
    if "--port-base" in words:
        assert int(words[words.index("--port-base") + 1]) == BASE


def test_commands_are_found() -> None:
    """Or the test above has nothing to try."""
    assert len(commands()) >= 15
    assert {words[0] for words in commands()} >= {"up", "machine", "certs", "authority", "status"}


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_systemd_takes_the_unit(unit: Path, tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        missing("systemd-analyze (Debian: apt-get install systemd)")
    copy = tmp_path / unit.name
    installed = str(Path(sys.executable).parent / "holdfast")
    copy.write_text(unit.read_text(encoding="utf-8").replace(INSTALLED, installed), encoding="utf-8")
    done = subprocess.run(
        ["systemd-analyze", "verify", str(copy)], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_unit_leaves_the_stopping_to_holdfast() -> None:
    """With KillMode=control-group, hosts and their agent would get SIGTERM together with the authority."""
    for unit in UNITS:
        lines = unit.read_text(encoding="utf-8").splitlines()
        assert "KillMode=mixed" in lines
        assert any(line.startswith("TimeoutStopSec=") for line in lines)


def objects() -> list[dict[str, Any]]:
    return [each for path in MANIFESTS for each in yaml.safe_load_all(path.read_text(encoding="utf-8"))]


def test_the_manifests_fit_together() -> None:
    """Names that one object uses are those of another; ports are those of the table."""
    services = {each["metadata"]["name"]: each for each in objects() if each["kind"] == "Service"}
    sets = {each["metadata"]["name"]: each for each in objects() if each["kind"] == "StatefulSet"}
    assert set(sets) == {"etcd", "holdfast"}
    for each in sets.values():
        spec, pod = each["spec"], each["spec"]["template"]
        labels = pod["metadata"]["labels"]
        assert spec["selector"]["matchLabels"] == labels
        assert services[spec["serviceName"]]["spec"]["selector"] == labels
        (container,) = pod["spec"]["containers"]
        mounted = {mount["name"] for mount in container["volumeMounts"]}
        made = {each["metadata"]["name"] for each in spec["volumeClaimTemplates"]}
        assert mounted == made | {volume["name"] for volume in pod["spec"].get("volumes", [])}
        served = {port["name"]: port["port"] for port in services[spec["serviceName"]]["spec"]["ports"]}
        assert {port["name"]: port["containerPort"] for port in container["ports"]} == served
    assert served_by(services["holdfast"]) == MACHINE
    pod = sets["holdfast"]["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] >= 60
    etcd = {each["name"]: each.get("value", "") for each in pod["containers"][0]["env"]}["HOLDFAST_DOMAIN"]
    assert all(f"etcd-{number}.etcd:{served_by(services['etcd'])['client']}" in etcd for number in range(3))


def served_by(service: dict[str, Any]) -> dict[str, int]:
    return {port["name"]: port["port"] for port in service["spec"]["ports"]}


def test_the_machines_of_the_compose_file_differ_and_keep_their_data() -> None:
    composed = yaml.safe_load((DEPLOY / "container/compose.yaml").read_text(encoding="utf-8"))
    machines = {name: each for name, each in composed["services"].items() if re.fullmatch(r"m\d", name)}
    assert len(machines) == 3
    for name, each in machines.items():
        assert each["environment"]["HOLDFAST_ADVERTISE"] == name
        assert each["environment"]["HOLDFAST_LOCATION"].endswith(f"/{name}")
        assert f"{name}:/data" in each["volumes"]
        assert each["command"] == ["start-machine"]
        assert each["stop_grace_period"] == "60s"
    used = {volume.partition(":")[0] for each in composed["services"].values() for volume in each["volumes"]}
    assert {name for name in used if not name.startswith(".")} == set(composed["volumes"])


def test_the_image_says_its_ports_and_has_the_script() -> None:
    text = (DEPLOY / "container/Containerfile").read_text(encoding="utf-8")
    (exposed,) = re.findall(r"^EXPOSE (.*)$", text, re.MULTILINE)
    assert {*map(int, exposed.split())} == {*MACHINE.values(), BASE + AUTHORITY}
    script = DEPLOY / "container/start-machine"
    assert str(script.relative_to(ROOT)) in text
    assert script.stat().st_mode & 0o111
    assert subprocess.run(["sh", "-n", str(script)], timeout=10, check=False).returncode == 0
