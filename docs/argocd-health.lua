-- Health of a ValkeyCluster for Argo CD. In the ConfigMap argocd-cm it is the value of
-- resource.customizations.health.valkey.io_ValkeyCluster.
local status = obj.status
if obj.metadata.deletionTimestamp ~= nil then
  return { status = "Progressing", message = "it is being deleted" }
end
if status == nil or status.conditions == nil or status.observedGeneration ~= obj.metadata.generation then
  return { status = "Progressing", message = "the operator has not looked at it yet" }
end

local conditions = {}
for _, condition in ipairs(status.conditions) do
  conditions[condition.type] = condition
end

local function is(name, value)
  return conditions[name] ~= nil and conditions[name].status == value
end

local function health(verdict, name)
  local condition = conditions[name] or { reason = name, message = "not known yet" }
  return { status = verdict, message = condition.reason .. ": " .. condition.message }
end

if is("Stalled", "True") then
  return health("Degraded", "Stalled")
end
-- Some slots take no writes; of a new cluster none do yet.
if is("Available", "False") and conditions["Available"].reason ~= "NotFormed" then
  return health("Degraded", "Available")
end
if is("Reconciling", "True") then
  -- It serves, and waits for somebody: spec.paused to be taken back, or pods to be replaced.
  local reason = conditions["Reconciling"].reason
  if is("Ready", "True") and (reason == "Paused" or reason == "RestartPending") then
    return health("Suspended", "Reconciling")
  end
  return health("Progressing", "Reconciling")
end
if is("Ready", "True") then
  return health("Healthy", "Ready")
end
return health("Progressing", "Ready")
