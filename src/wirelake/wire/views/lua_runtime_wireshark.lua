-- -- protocols in Wireshark ----------------------------------------------------------------------

-- A protocol with its preference, before its fields and layouts are declared.
local function protocol(name, title, port)
  local full = "wirelake." .. name
  local made = { name = name, proto = Proto(full, title), fields = {}, layouts = {} }
  made.malformed = ProtoExpert.new(full .. ".malformed", "malformed",
    expert.group.MALFORMED, expert.severity.ERROR)
  made.incomplete = ProtoExpert.new(full .. ".incomplete", "incomplete",
    expert.group.REASSEMBLE, expert.severity.NOTE)
  made.unshown = ProtoExpert.new(full .. ".unshown", "not shown",
    expert.group.PROTOCOL, expert.severity.NOTE)
  made.proto.experts = { made.malformed, made.incomplete, made.unshown }
  made.proto.prefs.port = Pref.uint("TCP port", port, "Port of the server; 0 for none")
  made.fields["malformed.code"] = ProtoField.string(
    full .. ".malformed.code", "malformed", "Code of the rule that is broken")
  made.fields["malformed.field"] = ProtoField.string(
    full .. ".malformed.field", "in field", "Field that breaks the rule")
  made.fields["malformed.offset"] = ProtoField.uint32(
    full .. ".malformed.offset", "at byte", base.DEC, nil, nil,
    "Where it shows, from the start of the message, the row or the stage")
  return made
end

-- The direction of a packet: by the configured port, else the lower port is the server's.
local function direction_of(made, pinfo)
  local port = made.proto.prefs.port
  if pinfo.dst_port == port then return "c2s" end
  if pinfo.src_port == port then return "s2c" end
  return pinfo.dst_port <= pinfo.src_port and "c2s" or "s2c"
end

local function new_state(made, tvb, raw, at, stop, direction)
  return {
    protocol = made, tvb = tvb, raw = raw, at = at, stop = stop, origin = at,
    direction = direction, open = false, scanning = false, framed = false, sealed = false,
    shown = 0,
  }
end

-- The end of the message that begins at `at`; or nil and { need }; or nil and a problem.
local function scan(made, tvb, raw, at, direction)
  if made.size and at + made.size <= #raw then return at + made.size end
  local s = new_state(made, tvb, raw, at, #raw, direction)
  s.open, s.scanning = true, true
  local ok, result = pcall(made.layouts[made.frame], s, nil)
  if ok then return s.at end
  if type(result) ~= "table" then error(result, 0) end
  if result.stop then return result.stop end
  return nil, result
end

-- Shows one message. `outcome` is what `scan` found instead of its end.
local function show(made, tvb, raw, at, stop, direction, tree, shown, outcome)
  local root = tree:add(made.proto, tvb:range(at, stop - at))
  local s = new_state(made, tvb, raw, at, stop, direction)
  s.shown, s.title = shown, made.frame
  local ok, problem = pcall(made.layouts[made.frame], s, root)
  if not ok and type(problem) ~= "table" then error(problem, 0) end
  if ok or outcome then problem = outcome end
  local mark_text = ""
  if outcome and outcome.need then
    mark_text = " [incomplete]"
    root:add_proto_expert_info(made.incomplete, "incomplete: more bytes wanted: " .. outcome.need)
  elseif problem then
    mark_text = " [malformed]"
    add_problem(s, root, problem)
  end
  root:append_text(", " .. s.title .. mark_text)
  return s.title .. mark_text, s.shown
end

-- A packet may hold the end of one buffer and the start of another: their names are joined.
local function set_columns(made, pinfo, titles)
  pinfo.cols.protocol = made.name
  if #titles == 0 then return end
  local text = table.concat(titles, ", ", 1, math.min(#titles, MAX_TITLES))
  if #titles > MAX_TITLES then text = text .. ", and " .. (#titles - MAX_TITLES) .. " more" end
  local before = pinfo.private["wirelake"]
  if before then text = before .. ", " .. text end
  pinfo.private["wirelake"] = text
  pinfo.cols.info = text
end

-- All messages of a segment; asks for more bytes when the last one goes on.
local function dissect(made, tvb, pinfo, tree)
  local raw, at, shown, titles = tvb:raw(), 0, MAX_SHOWN, {}
  local direction = direction_of(made, pinfo)
  while at < #raw do
    local stop, problem = scan(made, tvb, raw, at, direction)
    if problem and problem.need and pinfo.can_desegment > 0 and tvb:reported_len() == #raw then
      pinfo.desegment_offset = at
      pinfo.desegment_len = problem.exact and problem.need or DESEGMENT_ONE_MORE_SEGMENT
      break
    end
    titles[#titles + 1], shown =
      show(made, tvb, raw, at, stop or #raw, direction, tree, shown, problem)
    at = stop or #raw
  end
  set_columns(made, pinfo, titles)
  return #raw
end

-- Makes Wireshark use the protocol; `frame` is the layout of its messages, `size` their size
-- when that never varies.
local function register(made, frame, size)
  made.frame, made.size = frame, size
  local fields = {}
  for _, field in pairs(made.fields) do fields[#fields + 1] = field end
  made.proto.fields = fields
  function made.proto.dissector(tvb, pinfo, tree) return dissect(made, tvb, pinfo, tree) end

  local ports, current = DissectorTable.get("tcp.port"), 0
  local function listen()
    if current == made.proto.prefs.port then return end
    if current > 0 then ports:remove(current, made.proto) end
    current = made.proto.prefs.port
    if current > 0 then ports:add(current, made.proto) end
  end
  made.proto.prefs_changed = listen
  ports:add_for_decode_as(made.proto)
  listen()
end
