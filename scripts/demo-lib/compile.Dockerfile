# Compiles operator and sidecar for `make demo KIND=1`: the result is two files that fit the Dockerfile's public base, whatever machine
# this is. The Rust is that of rust-toolchain.toml, the Debian that of the public base.
FROM docker.io/library/rust:1.95.0-bookworm AS compile
WORKDIR /source
COPY . .
# The image has the compiler alone; without this, rustup would fetch clippy and rustfmt too.
ENV RUSTUP_TOOLCHAIN=1.95.0
RUN --mount=type=cache,target=/usr/local/cargo/registry --mount=type=cache,target=/source/target \
    cargo build --locked --profile quick --workspace --bin valkey-operator --bin valkey-sidecar \
    && install -D --target-directory=/compiled target/quick/valkey-operator target/quick/valkey-sidecar

FROM scratch
COPY --from=compile /compiled/ /
