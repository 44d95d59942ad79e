# Valkey server and tools with a small shell, at the paths and under the user of the public image. Serves every version.
# Everything is readable by everyone and only /data and /tmp are written, so any user id and a read-only root work.
# shellcheck shell=bash

# libc-bin brings getent and the C.UTF-8 locale: Valkey 8.1 does not start under a LANG that it cannot load.
valkey_packages=(base-files valkey-tools bash coreutils dash grep libc-bin sed)

valkey_inputs() { printf 'suite %s\n' "$(suite_of "$1")"; }

valkey_build() { # image, work folder
  local name=$1 work=$2 rootfs=$2/rootfs reference version
  reference=$(reference_of "$name")
  fetch_packages "$(suite_of "$name")" "$work/apt" "${valkey_packages[@]}"
  require_version "$work/apt" valkey-tools "${reference##*:}" "$(variable_of "$name" IMAGE)"
  version=$(upstream_version "$work/apt" valkey-tools)
  unpack_packages "$work/apt" "$rootfs"
  trim "$rootfs"
  write_accounts "$rootfs" valkey 999 /data
  link_valkey_programs "$rootfs"
  install -d -m 1777 "$rootfs/data"
  step "running the server once" "a shared library it needs is not among the packages"
  run_unpacked "$rootfs" /usr/bin/valkey-server --version
  write_archive "$work" "$rootfs" "$(valkey_config "$version")" "$reference" "${reference%:*}:$version"
}

# One binary is the server, Sentinel and both checkers; the name it is called by decides.
link_valkey_programs() { # root file system
  local program
  for program in valkey-server valkey-sentinel valkey-check-aof valkey-check-rdb; do
    [[ -e $1/usr/bin/$program ]] || ln -s valkey-check-rdb "$1/usr/bin/$program"
  done
  for program in server sentinel check-aof check-rdb cli benchmark; do
    ln -s "../../bin/valkey-$program" "$1/usr/local/bin/valkey-$program"
  done
}

valkey_config() { # version
  cat <<CONFIG
{"User":"999:999","WorkingDir":"/data","Cmd":["valkey-server"],"ExposedPorts":{"6379/tcp":{}},"Volumes":{"/data":{}},"StopSignal":"SIGTERM","Env":["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin","VALKEY_VERSION=$1"],"Labels":{"org.opencontainers.image.title":"valkey","org.opencontainers.image.version":"$1","org.opencontainers.image.licenses":"BSD-3-Clause","org.opencontainers.image.description":"Valkey from Debian packages, for machines without an image registry"}}
CONFIG
}
