# The Prometheus exporter, at the path and under the user of the public image.
# shellcheck shell=bash

exporter_inputs() { printf 'suite %s\n' "$(suite_of "$1")"; }

exporter_build() { # image, work folder
  local name=$1 work=$2 rootfs=$2/rootfs reference version
  reference=$(reference_of "$name")
  version=${reference##*:v}
  fetch_packages "$(suite_of "$name")" "$work/apt" base-files prometheus-redis-exporter
  require_version "$work/apt" prometheus-redis-exporter "$version" EXPORTER_IMAGE
  unpack_packages "$work/apt" "$rootfs"
  trim "$rootfs"
  write_accounts "$rootfs" exporter 59000 /
  mv "$rootfs/usr/bin/prometheus-redis-exporter" "$rootfs/redis_exporter"
  step "running the exporter once" "a shared library it needs is not among the packages"
  run_unpacked "$rootfs" /redis_exporter --version
  write_archive "$work" "$rootfs" "$(exporter_config "$version")" "$reference"
}

exporter_config() { # version
  cat <<CONFIG
{"User":"59000:59000","Entrypoint":["/redis_exporter"],"ExposedPorts":{"9121/tcp":{}},"Labels":{"org.opencontainers.image.title":"redis_exporter","org.opencontainers.image.version":"$1","org.opencontainers.image.licenses":"MIT","org.opencontainers.image.description":"Prometheus exporter from Debian packages, for machines without an image registry"}}
CONFIG
}
