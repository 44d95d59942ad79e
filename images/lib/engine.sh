# Builds a Dockerfile target with docker, podman or buildah, whichever works here, and pushes the result.
# buildah keeps its storage in the work folder, so nothing stays behind on the machine.
# shellcheck shell=bash

# A docker client without an engine behind it does not count.
engine() {
  if [[ -n ${IMAGE_ENGINE:-} ]]; then
    echo "$IMAGE_ENGINE"
  elif docker info >/dev/null 2>&1; then
    echo docker
  elif podman info >/dev/null 2>&1; then
    echo podman
  elif command -v buildah >/dev/null; then
    echo buildah
  else
    die "$name: no container builder works here; install the package buildah (on Debian: apt-get install buildah), or start docker"
  fi
}

private_buildah() { # work folder, argument…
  local work=$1
  shift
  BUILDAH_ISOLATION=chroot buildah --storage-driver vfs --root "$work/storage" --runroot "$work/run" "$@"
}

# Builds one target from a context folder and leaves it as <work>/image.tar. With a base archive the build needs no registry.
engine_build() { # work folder, target, reference, base reference, base archive or nothing
  local work=$1 target=$2 reference=$3 base=$4 base_archive=$5 tool
  tool=$(engine)
  local arguments=(-f "$repo/Dockerfile" --target "$target" --build-arg "BASE_IMAGE=$base" --build-arg "VERSION=${reference##*:}" -t "$reference")
  step "building with $tool" "the base image $base cannot be had, or $tool may not run here; images/README.md says what it needs"
  case $tool in
    docker)
      [[ -z $base_archive ]] || docker load -i "$base_archive"
      docker build "${arguments[@]}" "$work/context"
      docker save -o "$work/image.tar" "$reference"
      ;;
    podman)
      [[ -z $base_archive ]] || podman load -i "$base_archive"
      podman build --timestamp 0 "${arguments[@]}" "$work/context"
      podman save --format docker-archive -o "$work/image.tar" "$reference"
      ;;
    buildah)
      [[ -z $base_archive ]] || private_buildah "$work" pull "docker-archive:$base_archive"
      private_buildah "$work" build --timestamp 0 "${arguments[@]}" "$work/context"
      private_buildah "$work" push "$reference" "docker-archive:$work/image.tar:$reference"
      ;;
    *) die "$name: IMAGE_ENGINE is $tool; it must be docker, podman or buildah" ;;
  esac
}

# Pushes an archive to the registry its reference names. Who may push is the engine's own login.
engine_push() { # work folder, archive, reference
  local tool
  tool=$(engine)
  step "pushing $3 with $tool" "not logged in to the registry ($tool login), or it cannot be reached"
  case $tool in
    docker | podman)
      "$tool" load -i "$2"
      "$tool" push "$3"
      ;;
    buildah)
      private_buildah "$1" pull "docker-archive:$2"
      private_buildah "$1" push "$3"
      ;;
  esac
}
