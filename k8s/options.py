"""Every option of the injector and of `gapline inject`: two tables, of what pods get and of how the webhook serves.

Flags, `GAPLINE_INJECTOR_*` variables and keys of a TOML file follow from them, as in `otel.settings`.
"""

from __future__ import annotations

import re
from typing import Final

from k8s.quantities import quantity_text
from otel import settings
from otel.logs import AUTO, FORMATS
from otel.settings import Address, Option
from sidecar.option_values import optional

_IMAGE: Final = re.compile(r"[a-z0-9][A-Za-z0-9._:/@-]{0,254}")
_VERSION: Final = re.compile(r"v?1\.([0-9]{1,3})(?:[.+].*)?")
_SECRET: Final = re.compile(r"([a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?)/([A-Za-z0-9._-]{1,253})")


def image(value: str) -> str:
    if not _IMAGE.fullmatch(value):
        raise ValueError("must be the name of an image, such as registry.example/gapline:0.1.0")
    return value


def minor_version(value: str) -> int:
    """A version of Kubernetes, by its second number."""
    if (found := _VERSION.fullmatch(value)) is None:
        raise ValueError("must be a version of Kubernetes such as 1.33")
    return int(found[1])


def secret_key(value: str) -> tuple[str, str]:
    if (found := _SECRET.fullmatch(value)) is None:
        raise ValueError("must be SECRET/KEY")
    return found[1], found[2]


POD_OPTIONS: Final = (
    Option("image", image, "gapline:0.1.0", "image of the sidecar", "IMAGE"),
    Option("redirect_image", image, "gapline-nft:0.1.0", "image that puts redirecting rules in", "IMAGE"),
    Option("export", optional(settings.http_url), None, "where the sidecars send their spans; or off", "URL"),
    Option(
        "export_token",
        optional(secret_key),
        None,
        "their token for that: a key of a secret in the namespace of each pod; or off",
        "SECRET/KEY",
    ),
    Option(
        "kubernetes",
        optional(minor_version),
        None,
        "version of the oldest node; what is asked of the cluster wins; or off",
        "VERSION",
    ),
    Option(
        "native",
        settings.choice("auto", "always", "never"),
        "auto",
        "native sidecars; auto: where all nodes are known to have them, 1.29 or newer",
        "WHEN",
    ),
    Option(
        "allow_redirect",
        settings.switch,
        False,
        "redirect in the kernel where a port is called by its number and Pod Security lets us",
    ),
    Option(
        "ip_family",
        settings.choice("ipv4", "ipv6", "dual"),
        "ipv4",
        "addresses that pods have, where no Service that calls them tells",
        "FAMILY",
    ),
    Option("cpu", quantity_text, "100m", "CPU that a sidecar asks for", "AMOUNT"),
    Option("memory", quantity_text, "96Mi", "memory that a sidecar asks for", "AMOUNT"),
    Option("cpu_limit", optional(quantity_text), None, "CPU that it may use at most; or off", "AMOUNT"),
    Option("memory_limit", quantity_text, "256Mi", "memory that it may use at most", "AMOUNT"),
    Option(
        "guaranteed_cpu",
        quantity_text,
        "500m",
        "CPU that it gets in a pod whose containers all have what they may use at most",
        "AMOUNT",
    ),
)

SERVING_OPTIONS: Final = (
    Option("listen", settings.address, Address("0.0.0.0", 8443), "answer the API server here", "HOST:PORT"),  # noqa: S104
    Option("admin", settings.address, Address("0.0.0.0", 24_090), "health and metrics", "HOST:PORT"),  # noqa: S104
    Option("tls_cert", optional(settings.path), None, "certificate chain, PEM; read anew when it changes", "FILE"),
    Option("tls_key", optional(settings.path), None, "private key of that certificate, PEM", "FILE"),
    Option("namespace", settings.name, "gapline", "where the injector itself runs", "NAME"),
    Option("service", settings.name, "gapline-injector", "the Service by which the API server calls it", "NAME"),
    Option(
        "tls_secret",
        settings.name,
        "gapline-injector-tls",
        "where it keeps a certificate of its own, unless --tls-cert names one",
        "NAME",
    ),
    Option(
        "webhook",
        settings.name,
        "gapline-injector",
        "the MutatingWebhookConfiguration that it tells its authority",
        "NAME",
    ),
    Option(
        "look",
        settings.choice("cluster", "nothing"),
        "cluster",
        "cluster: ask which Services call a pod, and how old the nodes are; nothing: decide from the pod alone",
        "WHERE",
    ),
    Option("events", settings.switch, False, "write an Event for each decision"),
    Option(
        "drain_timeout",
        settings.seconds,
        10.0,
        "time after SIGTERM in which it still answers, until no API server calls it any more",
        "TIME",
    ),
    Option(
        "log_level", settings.choice("debug", "info", "warning", "error"), "info", "least level that is logged", "LEVEL"
    ),
    Option("log_format", settings.choice(*FORMATS), AUTO, "auto: text on a terminal, else json", "FORM"),
)
