{{/*
Stops install and upgrade where a definition of our name was made by somebody else, and says by whom. Context: the definition's name.
`lookup` finds nothing without a cluster (helm template), so rendering alone never stops here.
*/}}
{{- define "operator.refuseForeignDefinition" -}}
{{- $found := lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" . }}
{{- if $found }}
{{- $annotations := default dict $found.metadata.annotations }}
{{- if ne (default "" (get $annotations "valkey.io/owner")) "valkey-operator" }}
{{- fail (printf "\n\nThe CustomResourceDefinition %s exists and is not ours: %s.\nNothing was changed. Two operators cannot share a definition: remove that operator and its definition first (this deletes its clusters: save their data), or install into another Kubernetes cluster." . (include "operator.definitionOwner" $found)) }}
{{- end }}
{{- end }}
{{- end }}

{{/* Whose a definition is, in words: Helm release, who wrote it, labels, annotations. Context: the definition. */}}
{{- define "operator.definitionOwner" -}}
{{- $annotations := default dict .metadata.annotations }}
{{- $facts := list (printf "it was made at %s" .metadata.creationTimestamp) }}
{{- with get $annotations "meta.helm.sh/release-name" }}
{{- $facts = append $facts (printf "by the Helm release %s in namespace %s" . (get $annotations "meta.helm.sh/release-namespace")) }}
{{- end }}
{{- $managers := list }}
{{- range .metadata.managedFields }}
{{- if ne (default "" .subresource) "status" }}{{- $managers = append $managers .manager }}{{- end }}
{{- end }}
{{- with $managers | uniq }}{{- $facts = append $facts (printf "written by %s" (join ", " .)) }}{{- end }}
{{- with .metadata.labels }}{{- $facts = append $facts (printf "labels %s" (include "operator.pairs" .)) }}{{- end }}
{{- with omit $annotations "kubectl.kubernetes.io/last-applied-configuration" }}
{{- $facts = append $facts (printf "annotations %s" (include "operator.pairs" .)) }}
{{- end }}
{{- join "; " $facts }}
{{- end }}

{{- define "operator.pairs" -}}
{{- $pairs := list }}
{{- range $key, $value := . }}{{- $pairs = append $pairs (printf "%s=%s" $key (trunc 80 $value)) }}{{- end }}
{{- join ", " $pairs }}
{{- end }}
