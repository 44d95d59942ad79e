{{/* Names and labels of everything in the chart. */}}

{{- define "operator.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" }}
{{- end }}

{{- define "operator.fullname" -}}
{{- $name := include "operator.name" . }}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" }}
{{- else if contains $name .Release.Name }}
{{- .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{/* Cluster-scoped objects carry the namespace, so that releases of one name in two namespaces do not meet. */}}
{{- define "operator.clusterName" -}}
{{- printf "%s-%s" .Release.Namespace (include "operator.fullname" .) }}
{{- end }}

{{- define "operator.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "operator.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- required "serviceAccount.name is empty while serviceAccount.create is false: name the service account that exists" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{/* Where sidecars find the operator. */}}
{{- define "operator.lineService" -}}
{{- printf "%s-line" (include "operator.fullname" .) }}
{{- end }}

{{- define "operator.selector" -}}
app.kubernetes.io/name: {{ include "operator.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: operator
{{- end }}

{{- define "operator.labels" -}}
{{ include "operator.selector" . }}
app.kubernetes.io/part-of: valkey-operator
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/* image reference; context: dict "image" … "version" … */}}
{{- define "operator.image" -}}
{{- if .image.digest -}}
{{ .image.repository }}@{{ .image.digest }}
{{- else -}}
{{ .image.repository }}:{{ default .version .image.tag }}
{{- end }}
{{- end }}

{{/* The service account as the subject of a binding. */}}
{{- define "operator.subjects" -}}
- kind: ServiceAccount
  name: {{ include "operator.serviceAccount" . }}
  namespace: {{ .Release.Namespace }}
{{- end }}
