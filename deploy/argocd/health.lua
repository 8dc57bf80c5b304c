-- The health of every kind of stowage.dev, by the conditions that all of them have: one of Ready,
-- Reconciling and Stalled is True once a controller has looked at the object. Argo CD opens no
-- library of strings, so none is used.
local status = obj.status
if status == nil or status.observedGeneration ~= obj.metadata.generation then
  return { status = "Progressing", message = "Stowage has not seen this generation yet" }
end

local conditions = status.conditions or {}
local found = {}
for _, condition in ipairs(conditions) do
  found[condition.type] = condition
end

local function is_true(condition)
  return condition ~= nil and condition.status == "True"
end

-- The reason, and the message of the condition that it comes from.
local function message_of(condition)
  local reason = condition.reason or ""
  for _, cause in ipairs(conditions) do
    if cause.reason == reason and cause.status == "False" and (cause.message or "") ~= "" then
      return reason .. ": " .. cause.message
    end
  end
  return reason
end

if is_true(found.Stalled) then
  return { status = "Degraded", message = message_of(found.Stalled) }
end

local phase = (status.rollout or {}).phase
if phase == "Paused" or phase == "AwaitingApproval" then
  return { status = "Suspended", message = "the rollout is " .. phase }
end

if is_true(found.Ready) then
  if obj.kind == "MemberCluster" and (obj.spec or {}).unschedulable then
    return { status = "Suspended", message = "it takes no new units" }
  end
  return { status = "Healthy", message = message_of(found.Ready) }
end

return { status = "Progressing", message = message_of(found.Reconciling or found.Ready or {}) }
