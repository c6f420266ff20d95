"""What the kernel makes of the rules that a redirecting pod's init container gets, with a real sidecar and an app.

The init container's own command puts them in, and the sidecar runs with the variables of its own container.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import pytest

from k8s.facts import Facts
from k8s.keys import REDIRECT, SIDECAR
from k8s.renderer import injection
from tests.support import pods
from tests.support.pod_network import NODE4, NODE6, POD4, POD6, SERVICE4, PodNetwork, missing

pytestmark = pytest.mark.e2e

APP = """
import http.server, json, socket, threading
class App(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = json.dumps({"peer": self.client_address[0].removeprefix("::ffff:")}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
class Server(http.server.ThreadingHTTPServer):
    address_family = socket.AF_INET6
Server(("::", 8000), App).serve_forever()
"""
ASK = """
import json, sys, http.client
try:
    connection = http.client.HTTPConnection(sys.argv[1], int(sys.argv[2]), timeout=5)
    connection.request("GET", "/health")
    response = connection.getresponse()
    by = "sidecar" if response.getheader("X-Request-Id") else "app"
    print(json.dumps([by, response.status, json.loads(response.read() or "{}").get("peer")]))
except OSError as error:
    print(json.dumps([type(error).__name__, 0, None]))
"""


class Pod:
    """A redirecting pod that runs: its network, its plan, and the app and the sidecar in it."""

    def __init__(self, network):
        self.network = network
        app = pods.container(ports=[pods.http(None)], readinessProbe=pods.probe(8000))
        config = pods.config(allow_redirect="true", ip_family="dual")
        made = injection(pods.pod(app), namespace=pods.ASKED, facts=Facts(oldest_minor=33), config=config)
        self.plan = made.decision
        self.containers = {each["name"]: each for each in made.pod["spec"]["initContainers"]}
        self.readiness = made.pod["spec"]["containers"][0]["readinessProbe"]["httpGet"]["port"]

    def redirect(self):
        own = self.containers[REDIRECT]
        self.network.in_pod(*own["command"], *own["args"])

    def start_app(self):
        self.network.start_in_pod([sys.executable, "-c", APP], {"PATH": os.environ["PATH"]})
        self.wait(lambda: self.ask_within("127.0.0.1", 8000)[0] == "app")

    def start_sidecar(self):
        own = self.containers[SIDECAR]
        environ = {each["name"]: each["value"] for each in own["env"] if "value" in each}
        environ |= {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": os.pathsep.join(sys.path),
            "GAPLINE_SIDECAR_LOOP": "asyncio",
        }
        command = [sys.executable, "-m", "sidecar.cli", *own["command"][1:]]
        process = self.network.start_in_pod(command, environ)
        self.wait(lambda: self.ask_within("127.0.0.1", self.plan.listen_port)[0] == "sidecar")
        return process

    def ask(self, address, port):
        """From the node, as kubelet and callers do: who answered, and whom the app saw."""
        return json.loads(self.network.on_node(sys.executable, "-c", ASK, address, str(port)))

    def ask_within(self, address, port):
        return json.loads(self.network.in_pod(sys.executable, "-c", ASK, address, str(port)))

    def wait(self, is_so):
        until = time.monotonic() + 30
        while not is_so():
            assert time.monotonic() < until, "it did not come up"
            time.sleep(0.1)


@pytest.fixture(scope="module")
def pod():
    if reason := missing():
        pytest.skip(reason)
    with PodNetwork() as network:
        made = Pod(network)
        made.redirect()
        made.start_app()
        made.sidecar = made.start_sidecar()
        yield made


@pytest.mark.parametrize(("address", "own"), [(POD4, "127.0.0.1"), (POD6, "::1")])
def test_callers_by_the_pods_address_and_the_apps_number_come_to_the_sidecar(pod, address, own):
    assert pod.ask(address, 8000) in (["sidecar", 200, own], ["sidecar", 200, "127.0.0.1"], ["sidecar", 200, "::1"])


def test_callers_of_a_service_by_number_come_to_the_sidecar(pod):
    pod.network.on_node(
        "nft",
        "table ip service {\n chain output {\n type nat hook output priority -100; policy accept;\n"
        f" ip daddr {SERVICE4} tcp dport 80 dnat to {POD4}:8000\n }}\n}}\n",
    )
    assert pod.ask(SERVICE4, 80)[:2] == ["sidecar", 200]


@pytest.mark.parametrize(("address", "node"), [(POD4, NODE4), (POD6, NODE6)])
def test_probes_reach_the_app_past_the_sidecar(pod, address, node):
    assert pod.readiness == pod.plan.probe_port
    assert pod.ask(address, pod.readiness) == ["app", 200, node]


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", POD4, POD6])
def test_what_the_pod_asks_of_itself_goes_straight_so_there_is_no_loop(pod, address):
    assert pod.ask_within(address, 8000)[:2] == ["app", 200]


def test_ports_of_nobody_stay_those_of_nobody(pod):
    assert pod.ask(POD4, 8001)[0] == "ConnectionRefusedError"


def test_putting_the_rules_in_twice_changes_nothing(pod):
    before = pod.network.in_pod("nft", "list", "ruleset")
    assert before.count("redirect") == 2
    pod.redirect()
    assert pod.network.in_pod("nft", "list", "ruleset") == before


def test_a_sidecar_that_hangs_or_dies_keeps_no_probe_from_the_app(pod):
    """The last test of this pod: its sidecar is gone afterwards."""
    pod.sidecar.kill()
    pod.sidecar.wait()
    assert pod.ask(POD4, 8000)[0] == "ConnectionRefusedError"
    assert pod.ask(POD4, pod.readiness)[:2] == ["app", 200]


def test_nothing_is_left_behind_when_the_maker_is_killed():
    if reason := missing():
        pytest.skip(reason)
    script = (
        "import os, signal\n"
        "from tests.support.pod_network import PodNetwork\n"
        "network = PodNetwork().__enter__()\n"
        "print(*network._pids.values(), flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    made = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    pids = made.stdout.split()
    assert len(pids) == 2
    until = time.monotonic() + 10
    while any(os.path.exists(f"/proc/{pid}/ns/net") for pid in pids):
        assert time.monotonic() < until
        time.sleep(0.05)
