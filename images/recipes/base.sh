# What our own programs stand on where no registry is in reach: the C library, libgcc, root certificates, and no shell.
# It takes the place of the public distroless image that the Dockerfile names.
# shellcheck shell=bash

base_inputs() { printf 'suite %s\n' "$(suite_of "$1")"; }

base_build() { # image, work folder
  local name=$1 work=$2 rootfs=$2/rootfs
  fetch_packages "$(suite_of "$name")" "$work/apt" base-files ca-certificates libc6 libgcc-s1
  unpack_packages "$work/apt" "$rootfs"
  trim "$rootfs"
  write_accounts "$rootfs" nonroot 65532 /
  install -d "$rootfs/etc/ssl/certs"
  cat "$rootfs"/usr/share/ca-certificates/*/*.crt >"$rootfs/etc/ssl/certs/ca-certificates.crt"
  rm -rf "${rootfs:?}"/usr/{share/ca-certificates,bin/*,sbin/*}
  write_archive "$work" "$rootfs" \
    '{"User":"65532:65532","WorkingDir":"/","Env":["PATH=/usr/local/bin:/usr/bin","SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt"]}' "$(reference_of "$name")"
}
