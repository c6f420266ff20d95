"""What the exchanges of one listener share, and what those of several do."""

from sidecar.assembly import build
from sidecar.clock import SystemClock
from sidecar.config import config_of

SETTINGS = {
    "listen": "127.0.0.1:0",
    "upstream": "http://127.0.0.1:1",
    "hop": "gateway",
    "admin": "off",
    "egress": "far=127.0.0.1:0=http://127.0.0.1:2",
}


async def test_listeners_of_one_sidecar_share_all_but_the_way():
    sidecar = build(config_of(SETTINGS, {}), clock=SystemClock(), exporter=None)
    await sidecar.start()
    near, far = (side.listener._relay.route for side in sidecar.sides)
    await sidecar.close()

    assert (near.listener, far.listener) == ("listen", "egress:far")
    assert (near.host, far.host) == (None, "127.0.0.1:2")
    assert near.upstream is not far.upstream
    assert near.exchanges is far.exchanges
    assert near.doors is far.doors
    assert near.guard.policy == far.guard.policy
