# The demo on a cluster of its own made with kind or k3d. The engine compiles the programs and builds their images, so neither Rust nor
# Go is needed; Valkey's own image comes from its registry. The kubeconfig is kept apart: nobody's ~/.kube/config is touched.
# shellcheck shell=bash

kubernetes=valkey-demo
files=$cache/demo-kind
kubeconfig=$files/kubeconfig
began=""
# Cache mounts, with which compiling goes on from the last time, are BuildKit's.
export IMAGE_ENGINE DOCKER_BUILDKIT=1

check_machine() {
  local tool free
  [[ $(uname -s) == Linux ]] || die "it needs Linux: use a Linux machine, or a virtual one"
  find_tools
  for tool in kubectl helm; do
    command -v "$tool" >/dev/null || die "$tool is missing: install it and have it on PATH"
  done
  free=$(free_mb "$cache")
  ((free >= 5000)) || die "$free MB are free and 5000 MB are needed for $cache and the engine: make room, or set XDG_CACHE_HOME to a folder on a larger disk"
}

find_tools() {
  if docker info >/dev/null 2>&1; then
    IMAGE_ENGINE=docker
  elif podman info >/dev/null 2>&1; then
    IMAGE_ENGINE=podman
    # kind asks for docker unless it is told.
    export KIND_EXPERIMENTAL_PROVIDER=podman
  else
    die "neither docker nor podman works here: start one and be allowed to use it (docker info), or run make demo without KIND=1"
  fi
  for maker in kind k3d; do ! command -v "$maker" >/dev/null || return 0; done
  die "neither kind nor k3d is installed: install one (https://kind.sigs.k8s.io), or run make demo without KIND=1"
}

exists() {
  case $maker in
    kind) kind get clusters 2>/dev/null ;;
    k3d) k3d cluster list --no-headers | cut -d' ' -f1 ;;
  esac | grep -x "$kubernetes" >/dev/null
}

three_nodes='apiVersion: kind.x-k8s.io/v1alpha4
kind: Cluster
nodes: [{role: control-plane}, {role: worker}, {role: worker}, {role: worker}]'

make_kubernetes() {
  case $maker in
    kind) kind create cluster --name "$kubernetes" --config - --kubeconfig "$kubeconfig" --wait 180s <<<"$three_nodes" ;;
    k3d) k3d cluster create "$kubernetes" --agents 2 --wait --kubeconfig-update-default=false ;;
  esac
}

build_images() {
  local program
  "$IMAGE_ENGINE" build --file scripts/demo-lib/compile.Dockerfile --output "type=local,dest=$files/programs" . >"$logs/compile.log" 2>&1 ||
    die "$IMAGE_ENGINE cannot compile operator and sidecar: is a registry in reach? All that it said is in $logs/compile.log"
  for program in operator sidecar; do
    images/build --public-base --binary "$files/programs/valkey-$program" "$program"
  done >"$files/images"
}

load_images() {
  local archive archives
  mapfile -t archives < <(cut -d' ' -f2 "$files/images")
  case $maker in
    kind) for archive in "${archives[@]}"; do kind load image-archive "$archive" --name "$kubernetes"; done ;;
    k3d) k3d image import "${archives[@]}" --cluster "$kubernetes" ;;
  esac
}

# A tag stays the same when the program changes; the archive's path does not. It makes the Deployment roll.
install_operator() {
  local revision
  revision=$(sha256sum <"$files/images" | cut -c1-12)
  E2E_EXTERNAL=1 OPERATOR_REPLICAS="" e2e/install-operator --set "podAnnotations.e2e\.valkey\.io/images=$revision"
}

write_kubeconfig() {
  case $maker in
    kind) kind get kubeconfig --name "$kubernetes" ;;
    k3d) k3d kubeconfig get "$kubernetes" ;;
  esac >"$kubeconfig"
  chmod 600 "$kubeconfig"
}

provide() {
  mkdir -p "$files"
  step_log["operator and sidecar"]=$logs/compile.log
  start_step "operator and sidecar" build_images
  exists || { began=yes && run_step "Kubernetes by $maker" make_kubernetes; }
  await_step "operator and sidecar"
  write_kubeconfig
  export KUBECONFIG=$kubeconfig
  run_step "images onto the nodes" load_images
  run_step "Helm chart" install_operator
}

undo() {
  [[ -z $began ]] || delete_kubernetes >&2
}

# Also half of one, which is not in the list yet.
delete_kubernetes() {
  case $maker in
    kind) kind delete cluster --name "$kubernetes" --kubeconfig "$kubeconfig" ;;
    k3d) k3d cluster delete "$kubernetes" ;;
  esac
  rm -rf "$files"
}

check_down() { find_tools; }

take_down() {
  if exists; then delete_kubernetes; else echo "there is no demo"; fi
}

take_down_in_words() { echo "make demo-down KIND=1"; }

environment() { echo "export KUBECONFIG=$kubeconfig"; }

fail_primary_in_words() { echo "a primary's pod is deleted"; }

fail_primary() { echo "kubectl delete pod $(primary)"; }
