# The operator and the sidecar as images. The binaries are built outside (cargo build --release); the build context is the folder
# that holds them:   docker build --target operator -f Dockerfile target/release
# images/build does this with whatever builder is at hand, and gives a base of its own where no registry is in reach.
ARG BASE_IMAGE=gcr.io/distroless/cc-debian12:nonroot

FROM ${BASE_IMAGE} AS runtime
ARG VERSION=unknown
LABEL org.opencontainers.image.source="https://github.com/valkey-operator/valkey-operator" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}"
WORKDIR /
USER 65532:65532

FROM runtime AS operator
LABEL org.opencontainers.image.title="valkey-operator" \
      org.opencontainers.image.description="Runs Valkey on Kubernetes: the control plane"
COPY valkey-operator /usr/local/bin/valkey-operator
ENTRYPOINT ["/usr/local/bin/valkey-operator"]

FROM runtime AS sidecar
LABEL org.opencontainers.image.title="valkey-sidecar" \
      org.opencontainers.image.description="Runs Valkey on Kubernetes: the agent in every Valkey pod"
COPY valkey-sidecar /usr/local/bin/valkey-sidecar
ENTRYPOINT ["/usr/local/bin/valkey-sidecar"]
