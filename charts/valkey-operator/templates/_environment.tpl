{{/*
Settings of the operator. Everything is here and nothing in arguments, so that one place shows them all. apiVersion is what the API
server fills in: written out, what Helm and kubectl apply is the same, and one can take over from the other without a conflict.
*/}}
{{- define "operator.environment" -}}
- name: POD_NAME
  valueFrom:
    fieldRef:
      apiVersion: v1
      fieldPath: metadata.name
- name: POD_NAMESPACE
  valueFrom:
    fieldRef:
      apiVersion: v1
      fieldPath: metadata.namespace
- name: VALKEY_OPERATOR_LEASE_NAME
  value: {{ include "operator.fullname" . }}
{{- with .Values.watchNamespaces }}
- name: VALKEY_OPERATOR_WATCH_NAMESPACES
  value: {{ join "," . | quote }}
{{- end }}
- name: VALKEY_OPERATOR_SIDECAR_IMAGE
  value: {{ include "operator.image" (dict "image" .Values.sidecarImage "version" .Chart.AppVersion) }}
- name: VALKEY_OPERATOR_LOG_FORMAT
  value: {{ .Values.log.format }}
- name: VALKEY_OPERATOR_LOG_FILTER
  value: {{ .Values.log.filter | quote }}
# The allocator keeps a pool per thread otherwise, most of it idle.
- name: MALLOC_ARENA_MAX
  value: "1"
{{- end }}
