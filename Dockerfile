# One image for the sidecar, the injector and the collector, which are commands of one program:
#   docker build --tag gapline:0.1.0 .
# `python -m tests.k8s.images` carries these steps out in clean roots, without a container engine.
ARG BASE=debian:trixie-slim

FROM ${BASE} AS build
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates gcc libc6-dev python3 python3-dev python3-venv \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY requirements/build.txt requirements/image.txt requirements/
# Wheels only: what is compiled here is our own compiled part, and the compiler stays here.
RUN python3 -m venv /opt/gapline && python3 -m venv /opt/build \
    && /opt/gapline/bin/pip install --no-cache-dir --only-binary :all: --require-hashes --requirement requirements/image.txt \
    && /opt/build/bin/pip install --no-cache-dir --only-binary :all: --require-hashes --requirement requirements/build.txt
COPY LICENSE README.md hatch_build.py pyproject.toml ./
COPY k8s k8s
COPY otel otel
COPY sidecar sidecar
RUN GAPLINE_BUILD_NATIVE=require /opt/build/bin/pip wheel --no-deps --no-build-isolation --wheel-dir dist . \
    && /opt/gapline/bin/pip install --no-cache-dir --no-deps --no-index dist/*.whl \
    && /opt/gapline/bin/pip uninstall --yes pip

FROM ${BASE}
LABEL org.opencontainers.image.title="gapline" \
      org.opencontainers.image.description="Which hop of an LLM serving path made the reader wait, since when, and why" \
      org.opencontainers.image.licenses="Apache-2.0"
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates python3 \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /opt/gapline /opt/gapline
ENV PATH=/opt/gapline/bin:/usr/bin:/bin PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
# A number, since runAsNonRoot looks at no names; the one that the injector's manifests and rules name.
USER 64102:64102
STOPSIGNAL SIGTERM
ENTRYPOINT ["gapline"]
