"""The names that people and the injector use on objects of Kubernetes, and the ports that the sidecar takes."""

from __future__ import annotations

from typing import Final

PREFIX: Final = "gapline.dev/"
SETTING_PREFIX: Final = "sidecar.gapline.dev/"
"""Before the name of any option of the sidecar, as in `sidecar.gapline.dev/stall-after`."""
ATTRIBUTE_PREFIX: Final = "resource.opentelemetry.io/"
"""Before a resource attribute: the OpenTelemetry operator's convention, which people have on their pods already."""

INJECT: Final = PREFIX + "inject"
"""A label, since a webhook selects by labels only: `enabled` or `true`, `disabled` or `false`. A pod's own wins."""
INJECTED: Final = PREFIX + "injected"
"""A label that the injector puts on pods that have a sidecar."""
STATUS: Final = PREFIX + "status"
"""An annotation in which the injector writes what it decided, and what stood there before."""

MIRROR: Final = "kubernetes.io/config.mirror"
"""An annotation of a pod that only shows what a node runs by itself: nothing that is changed in it has an effect."""

ON: Final = frozenset({"enabled", "true"})
OFF: Final = frozenset({"disabled", "false"})

SYSTEM: Final = frozenset({"kube-system", "kube-public", "kube-node-lease", "cert-manager"})
"""Namespaces of which the webhook never hears: without their pods none would start."""

SIDECAR: Final = "gapline"
REDIRECT: Final = "gapline-redirect"
"""The init container that puts the redirecting rules into the pod's network namespace."""
NO_TOKEN: Final = "gapline-no-token"  # noqa: S105  # a volume
"""An empty volume over the place of the service account's token, which the sidecar has no use for."""

LISTEN_PORT: Final = 24_080
PROBE_PORT: Final = 24_081
"""Where a redirecting pod's probes go: the kernel hands them to the app, past the sidecar."""
ADMIN_PORT: Final = 24_090
EGRESS_PORT: Final = 24_100
"""The first of those on which the sidecar listens for what the app asks."""
PORTS: Final = range(24_080, 24_200)
"""Ours are taken from here: above what servers use by habit and what Ray gives its workers, below the range from which
Linux takes the ports of clients."""
METRICS_PORT_NAME: Final = "gapline-metrics"
USER: Final = 64_102
"""The sidecar's user and group: a number that images do not use, so that rules can tell its traffic from the app's."""
