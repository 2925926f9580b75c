-- -- what a message means, in the tree ------------------------------------------------------------

local function show_text(value)
  if bad_utf8(value) then value = value:gsub("[\128-\255]", "?") end
  return (value:gsub("%c", "?"))
end

local function show_shared(tree, nowhere, name, value)
  return tree:add(SHARED.fields[name], nowhere, value):set_generated()
end

local function show_expert(tree, name, text)
  tree:add_proto_expert_info(SHARED.experts[name], text)
end

-- The request or the response of a message, and how long it took.
local function show_call(tree, nowhere, record, complete)
  local call, part = record.call, record.part
  if part == "orphan" then show_expert(tree, "orphan", "a response whose request was not found") end
  if not call then return end
  if part == "request" or part == "again" then
    if call.response then show_shared(tree, nowhere, "response_in", call.response) end
    if complete and part == "request" and unanswered(call) then
      show_expert(tree, "unanswered", "no response was found")
    end
    return
  end
  show_shared(tree, nowhere, "request_in", call.request)
  if part == "response" then
    local latency = call.answered - call.asked
    local sign = latency < 0 and -1 or 1
    local seconds = math.floor(math.abs(latency) / 1e9)
    local time = NSTime.new(sign * seconds, sign * (math.abs(latency) - seconds * 1e9))
    show_shared(tree, nowhere, "latency", time)
  elseif part == "duplicate" then
    show_expert(tree, "duplicate", "a further response")
  end
end

local function show_row(tree, nowhere, row, record, complete)
  for _, column in ipairs(COLUMNS) do
    local value = row[column]
    if type(value) == "string" then value = show_text(value) end
    if value ~= nil then show_shared(tree, nowhere, column, value) end
  end
  if row.kind == "response" and row.status and row.status ~= "ok" then
    local reason = row.reason and " (" .. row.reason .. ")" or ""
    show_expert(tree, "failed", "failed: " .. clean(row.status .. reason))
  end
  if record then show_call(tree, nowhere, record, complete) end
end

-- What distinguishes the rows of a packet: a record belongs to one of them.
local function sign_of(row)
  local id, to = row.message_id, row.reply_to
  return table.concat({
    row.kind or "", row.name or "", id and tostring(id) or "", to and tostring(to) or "",
    row.target or "",
  }, "\0")
end

-- The place of a row in its call. It is found when a packet is dissected for the first time, in the
-- order of the capture, and remembered: Wireshark dissects packets again, in any order.
local function record_of(place, row, new, connection, link)
  local count = tonumber(place.private["wirelake.rows"] or 0) + 1
  place.private["wirelake.rows"] = tostring(count)
  local records = place.made.records[place.frame] or {}
  place.made.records[place.frame] = records
  local sign = sign_of(row)
  if not place.new then
    local found = records[count]
    return found and found.sign == sign and found or nil
  end
  local record = { sign = sign }
  if new then
    record.call, record.part =
      match(connection, row, place.direction, place.frame, place.time, link)
  end
  records[count] = record
  return record
end

-- The connection of the messages in a tunnel, which a row of its link may begin or end.
local function tunnel_of(place, tunnels, row, m)
  if not place.new or not row.target then return nil end
  local known = place.made.tunnels
  if row.name == tunnels.connect or row.name == tunnels.disconnect
    or row.name == tunnels.connected and plain(tunnels.accepted(m)) == 0 then
    known[row.target] = nil
  end
  if row.name == tunnels.carrier and not known[row.target] then
    known[row.target] = new_connection(true, place.time)
  end
  return known[row.target]
end

-- Shows what a message means; returns its text in the Info column.
local function show_meaning(s, root, place, new)
  local meaning, nowhere = s.protocol.meaning, s.tvb:range(0, 0)
  local m = {
    kept = s.kept, opened = s.opened, rows = s.rows, name = meaning.names[s.name] or s.name,
  }
  local row = describe(meaning, m)
  local record = record_of(place, row, new, place.connection)
  show_row(root, nowhere, row, record, place.complete)
  if s.concealed or meaning.transformed and s.sealed then
    show_expert(root, "sealed", "encrypted content")
  end
  local words = summary(row, record and record.call)
  local tunnels = meaning.tunnels
  if not tunnels then return words end
  local connection = tunnel_of(place, tunnels, row, m)
  local message = tunnels.message(m)
  if not message then return words end
  local inner = { kept = {}, opened = { [tunnels.stage] = message }, rows = {} }
  local carried = describe(tunnels.meaning, inner)
  local found = record_of(place, carried, new and connection ~= nil, connection, place.connection)
  local node = show_shared(root, nowhere, "carried", tunnels.protocol)
  show_row(node, nowhere, carried, found, place.complete)
  return words .. ", " .. summary(carried, found and found.call)
end

-- -- protocols in Wireshark ----------------------------------------------------------------------

-- A protocol with its preference, before its fields and layouts are declared.
local function protocol(name, title, port)
  local full = "wirelake." .. name
  local made = { name = name, proto = Proto(full, title), fields = {}, layouts = {} }
  -- Wireshark reads a capture from its beginning.
  local function forget()
    made.connections, made.tunnels, made.records, made.gaps = {}, {}, {}, {}
    made.latest = 0
  end
  made.proto.init = forget
  forget()
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
    shown = 0, kept = {}, opened = {}, rows = {}, name = made.frame,
  }
end

-- Where a packet is: its connection, and what is known of the calls in it. `new`: it is dissected
-- for the first time, after those before it; `complete`: the whole capture was read before.
local function place_of(made, pinfo, raw, size, direction)
  local private, stream = pinfo.private, last_value(TCP.stream)
  local place = { made = made, frame = pinfo.number, private = private, direction = direction }
  place.first = not private["wirelake.rows"]
  if place.first then
    private["wirelake.rows"] = "0"
    if stream and place.frame > made.latest then
      made.latest = place.frame
      private["wirelake.new"] = "new"
    end
  end
  place.new = private["wirelake.new"] == "new"
  place.complete = pinfo.visited and not place.new
  if not place.new then return place end
  place.time = math.floor(pinfo.rel_ts * 1e9 + 0.5)
  place.connection = connection_of(made, stream, place.time)
  place.stream = place.connection.streams[direction]
  if locate(place.stream, raw, size, place.first) then
    made.gaps[place.frame] = true
    break_off(place.connection, direction, place.time)
  end
  return place
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
local function show(made, tvb, raw, at, stop, tree, shown, outcome, place)
  local root = tree:add(made.proto, tvb:range(at, stop - at))
  local s = new_state(made, tvb, raw, at, stop, place.direction)
  s.shown, s.title = shown, made.frame
  local ok, problem = pcall(made.layouts[made.frame], s, root)
  if not ok and type(problem) ~= "table" then error(problem, 0) end
  if ok or outcome then problem = outcome end
  if place.first and made.gaps[place.frame] then
    show_expert(root, "gap", "bytes are missing before this message")
  end
  place.first = false
  local new = place.new and advance(place.stream, stop - at)
  if not problem then
    root:append_text(", " .. s.title)
    return show_meaning(s, root, place, new), s.shown
  end
  if new then break_off(place.connection, place.direction, place.time) end
  local mark_text = " [malformed]"
  if outcome and outcome.need then
    mark_text = " [incomplete]"
    root:add_proto_expert_info(made.incomplete, "incomplete: more bytes wanted: " .. outcome.need)
  else
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
  local place = place_of(made, pinfo, raw, tvb:reported_len(), direction)
  while at < #raw do
    local stop, problem = scan(made, tvb, raw, at, direction)
    if problem and problem.need and pinfo.can_desegment > 0 and tvb:reported_len() == #raw then
      if place.stream then await(place.stream, raw, at) end
      pinfo.desegment_offset = at
      pinfo.desegment_len = problem.exact and problem.need or DESEGMENT_ONE_MORE_SEGMENT
      break
    end
    titles[#titles + 1], shown =
      show(made, tvb, raw, at, stop or #raw, tree, shown, problem, place)
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
