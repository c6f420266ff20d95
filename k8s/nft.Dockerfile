# Puts the rules of a redirecting pod into its kernel, and ends:
#   docker build --tag gapline-nft:0.1.0 --file k8s/nft.Dockerfile .
# The capability is on the file itself: so it works for a user who is not root and may gain no privileges, as long as the
# pod's container adds NET_ADMIN. A shell in front of it would lose it.
ARG BASE=debian:trixie-slim

FROM ${BASE}
LABEL org.opencontainers.image.title="gapline-nft" \
      org.opencontainers.image.description="Redirects the port of an app to its gapline sidecar, in the kernel" \
      org.opencontainers.image.licenses="Apache-2.0"
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends nftables libcap2-bin \
    && setcap cap_net_admin+ep /usr/sbin/nft \
    && apt-get purge --yes --auto-remove libcap2-bin \
    && rm -rf /var/lib/apt/lists/*
USER 64102:64102
ENTRYPOINT ["/usr/sbin/nft"]
