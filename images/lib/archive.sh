# Writes a root file system and its configuration as one archive that containerd, docker, podman and buildah all load:
# an OCI layout that also carries docker's manifest.json. Times and owners are fixed, so the same content has the same digest.
# shellcheck shell=bash

# Adds a file to the layout under its digest; prints the digest.
add_blob() { # layout, file
  local digest
  digest=$(sha256sum "$2" | cut -d' ' -f1)
  mv "$2" "$1/blobs/sha256/$digest"
  echo "$digest"
}

stable_tar() { # folder, archive
  tar -c -C "$1" --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --format=gnu -f "$2" .
}

# A descriptor of a blob in the layout, with optional further JSON members.
descriptor() { # layout, media type, digest, further members
  printf '{"mediaType":"%s","digest":"sha256:%s","size":%s%s}' "$2" "$3" "$(stat -c %s "$1/blobs/sha256/$3")" "${4:-}"
}

write_index() { # layout, digests of layer, config and manifest, reference…
  local layout=$1 layer=$2 config=$3 manifest=$4 reference names="" entries=""
  shift 4
  for reference in "$@"; do
    names+="${names:+,}\"$reference\""
    entries+="${entries:+,}$(descriptor "$layout" application/vnd.oci.image.manifest.v1+json "$manifest" \
      ",\"annotations\":{\"io.containerd.image.name\":\"$reference\",\"org.opencontainers.image.ref.name\":\"${reference##*:}\"}")"
  done
  printf '{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[%s]}' "$entries" >"$layout/index.json"
  printf '[{"Config":"blobs/sha256/%s","RepoTags":[%s],"Layers":["blobs/sha256/%s"]}]' "$config" "$names" "$layer" >"$layout/manifest.json"
  printf '{"imageLayoutVersion":"1.0.0"}' >"$layout/oci-layout"
}

# One layer, one configuration, any number of names. The configuration is the `config` object of the OCI image specification.
write_archive() { # work folder, root file system, config object, reference…
  local work=$1 rootfs=$2 settings=$3 layout=$1/layout layer config manifest
  shift 3
  step "writing the archive" "the disk is full"
  mkdir -p "$layout/blobs/sha256"
  stable_tar "$rootfs" "$work/layer"
  layer=$(add_blob "$layout" "$work/layer")
  printf '{"architecture":"%s","os":"linux","config":%s,"rootfs":{"type":"layers","diff_ids":["sha256:%s"]},"history":[{"created_by":"images/build"}]}' \
    "$(architecture)" "$settings" "$layer" >"$work/config"
  config=$(add_blob "$layout" "$work/config")
  printf '{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":%s,"layers":[%s]}' \
    "$(descriptor "$layout" application/vnd.oci.image.config.v1+json "$config")" \
    "$(descriptor "$layout" application/vnd.oci.image.layer.v1.tar "$layer")" >"$work/manifest"
  manifest=$(add_blob "$layout" "$work/manifest")
  write_index "$layout" "$layer" "$config" "$manifest" "$@"
  stable_tar "$layout" "$work/image.tar"
}

# Unpacks the layers of an archive written above.
unpack_archive() { # archive, folder
  local layer
  tar -xO -f "$1" ./manifest.json | grep -oE 'blobs/sha256/[0-9a-f]+"\]' | tr -d '"]' | while read -r layer; do
    tar -xO -f "$1" "./$layer" | tar -x -C "$2" --no-same-owner
  done
}
