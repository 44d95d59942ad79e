{{/*
What the operator may do in a namespace it runs clusters in. The same rules are in one ClusterRole or in a Role per namespace.
No wildcard, no exec; Secrets one by one by name, never listed: a test holds us to it.
*/}}
{{- define "operator.rules" -}}
- apiGroups: [valkey.io]
  resources: [valkeyclusters]
  verbs: [get, list, watch]
- apiGroups: [valkey.io]
  resources: [valkeyclusters/status]
  verbs: [patch]
# Owner references that block deletion need this where that is enforced.
- apiGroups: [valkey.io]
  resources: [valkeyclusters/finalizers]
  verbs: [update]
{{- if eq .Values.identity.source "workload-api" }}
# Certificates come from elsewhere: what would show them is watched and never made, and there is no right to Secrets.
- apiGroups: [valkey.io]
  resources: [valkeycertificatebundles, valkeycertificatebindings]
  verbs: [list, watch]
{{- else }}
# What shows a cluster's certificates. They go with their owners.
- apiGroups: [valkey.io]
  resources: [valkeycertificatebundles, valkeycertificatebindings]
  verbs: [get, list, watch, create, patch]
- apiGroups: [valkey.io]
  resources: [valkeycertificatebundles/status, valkeycertificatebindings/status]
  verbs: [patch]
- apiGroups: [valkey.io]
  resources: [valkeycertificatebundles/finalizers]
  verbs: [update]
# A ValkeyCA in the wrong place is told that nobody acts on it.
- apiGroups: [valkey.io]
  resources: [valkeycas]
  verbs: [list]
- apiGroups: [valkey.io]
  resources: [valkeycas/status]
  verbs: [patch]
# The certificates themselves. Names are not known beforehand, but nothing is ever listed, watched or deleted.
- apiGroups: [""]
  resources: [secrets]
  verbs: [get, create, patch]
{{- end }}
- apiGroups: [apps]
  resources: [statefulsets]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [configmaps, services, serviceaccounts]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [monitoring.coreos.com]
  resources: [servicemonitors]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [pods, persistentvolumeclaims]
  verbs: [get, list, watch, patch]
# Reads why a pod could not be made; writes what happened to a cluster.
- apiGroups: [""]
  resources: [events]
  verbs: [create, list]
{{- end }}

{{/* Asking which pod holds a token. TokenReviews have no namespace, and nothing of another namespace can be read with this right. */}}
{{- define "operator.reviewRules" -}}
- apiGroups: [authentication.k8s.io]
  resources: [tokenreviews]
  verbs: [create]
{{- end }}

{{/* In which zone a node is, so that a shard is spread over zones. Without it, zones are known where Kubernetes writes them on pods. */}}
{{- define "operator.nodeRules" -}}
- apiGroups: [""]
  resources: [nodes]
  verbs: [get]
{{- end }}

{{/* Looking at start-up whether the definitions are ours: by name, and only reading. */}}
{{- define "operator.definitionRules" -}}
- apiGroups: [apiextensions.k8s.io]
  resources: [customresourcedefinitions]
  resourceNames:
    {{- range $path, $_ := .Files.Glob "definitions/*.yaml" }}
    - {{ trimSuffix ".yaml" (base $path) }}
    {{- end }}
  verbs: [get]
{{- end }}
