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
- name: POD_IP
  valueFrom:
    fieldRef:
      apiVersion: v1
      fieldPath: status.podIP
- name: VALKEY_OPERATOR_LINE_ADVERTISE
  value: {{ include "operator.lineService" . }}.{{ .Release.Namespace }}.svc:8443
- name: VALKEY_OPERATOR_LEASE_NAME
  value: {{ include "operator.fullname" . }}
{{- with .Values.watchNamespaces }}
- name: VALKEY_OPERATOR_WATCH_NAMESPACES
  value: {{ join "," . | quote }}
{{- end }}
- name: VALKEY_OPERATOR_SIDECAR_IMAGE
  value: {{ include "operator.image" (dict "image" .Values.sidecarImage "version" .Chart.AppVersion) }}
{{- if eq .Values.identity.source "workload-api" }}
- name: VALKEY_OPERATOR_IDENTITY_SOURCE
  value: workload-api
- name: SPIFFE_ENDPOINT_SOCKET
  value: unix://{{ .Values.identity.workloadApi.socket }}
{{- with .Values.identity.workloadApi.trustDomain }}
- name: VALKEY_OPERATOR_TRUST_DOMAIN
  value: {{ . | quote }}
{{- end }}
{{- end }}
- name: VALKEY_OPERATOR_LOG_FORMAT
  value: {{ .Values.log.format }}
- name: VALKEY_OPERATOR_LOG_FILTER
  value: {{ .Values.log.filter | quote }}
# One thread needs one pool, and what is free goes back soon.
- name: _RJEM_MALLOC_CONF
  value: narenas:1,tcache:false,dirty_decay_ms:1000,muzzy_decay_ms:0
{{- end }}
