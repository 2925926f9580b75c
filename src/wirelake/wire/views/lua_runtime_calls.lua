-- -- calls: requests and their responses ---------------------------------------------------------

-- The rules are those of "Calls" and "When order can be trusted" in docs/concepts/matching.md; a
-- connection has what `records/calls.py` has for one. Times are nanoseconds from the first packet.

local QUIET_NS = 10e9 -- after this long without a request or response, no call is in progress
local DUPLICATE_NS = 10e9 -- how long after a response another one counts as its duplicate
local ACTIVITY = { request = true, response = true, part = true }
local OPPOSITE = { c2s = "s2c", s2c = "c2s" }

local function new_queue()
  return { first = 1, last = 0 }
end

local function push(queue, value)
  queue.last = queue.last + 1
  queue[queue.last] = value
end

local function pop(queue)
  local value = queue[queue.first]
  if value ~= nil then queue[queue.first], queue.first = nil, queue.first + 1 end
  return value
end

-- The calls of one end: open ones by id, by target and in order, answered ones by id.
local function new_side()
  return { open = {}, by_target = {}, order = new_queue(), answered = {} }
end

-- `settled`: its start was captured, so order can be trusted. `since`: when it began.
local function new_connection(settled, since)
  return {
    c2s = new_side(), s2c = new_side(), streams = { c2s = {}, s2c = {} },
    unsettled = not settled, last = since, awaited = {}, breaks = {},
  }
end

-- Messages of a direction are missing before this time: order cannot be trusted.
local function break_off(connection, direction, time)
  connection.breaks[direction] = time
  connection.unsettled, connection.last, connection.awaited[direction] = true, time, true
  for _, way in ipairs({ "c2s", "s2c" }) do
    local side = connection[way]
    for index = side.order.first, side.order.last do side.order[index].unknown = true end
    side.order = new_queue()
  end
end

-- A request after a quiet time makes order reliable again, once the end of each gap was seen.
local function settle(connection, row, direction, time)
  if ACTIVITY[row.kind] then
    local quiet = time - connection.last >= QUIET_NS
    if quiet and row.kind == "request" and not next(connection.awaited) then
      connection.unsettled = false
      return
    end
    connection.last = time
  end
  connection.awaited[direction] = nil
end

local function request(connection, side, row, call)
  if not row.message_id then
    if connection.unsettled then
      call.unknown = true
    else
      push(side.order, call)
    end
    return call, "request"
  end
  local key = tostring(row.message_id)
  local known = side.open[key]
  if known then return known, "again" end -- a part of a long request, or a repetition
  side.open[key], side.answered[key] = call, nil
  if row.target then
    local same = side.by_target[row.target] or new_queue()
    side.by_target[row.target], call.key = same, key
    push(same, call)
  end
  return call, "request"
end

local function complete(side, key, call, frame, time)
  call.response, call.answered = frame, time
  if key then side.open[key], side.answered[key] = nil, call end
  return call, "response"
end

local function recent(side, key, time)
  local call = side.answered[key]
  if call and time - call.answered <= DUPLICATE_NS then return call end
end

-- The oldest open call with the target.
local function with_target(side, target)
  local same = target and side.by_target[target]
  while same and same[same.first] do
    local call = same[same.first]
    if side.open[call.key] == call then return call end
    pop(same)
  end
end

local function response(connection, side, row, frame, time)
  if row.reply_to then
    local key = tostring(row.reply_to)
    local call = side.open[key]
    if call then return complete(side, key, call, frame, time) end
    call = recent(side, key, time)
    return call, call and "duplicate" or "orphan"
  end
  if connection.unsettled then
    connection.breaks[OPPOSITE[row.asked]] = time -- it belongs to some request
    return nil, "unsettled"
  end
  local call = pop(side.order)
  if call then return complete(side, nil, call, frame, time) end
  call = with_target(side, row.target)
  if call then return complete(side, call.key, call, frame, time) end
  return nil, "orphan"
end

-- A part or a trace: information about a call that it does not end.
local function about(side, row, time)
  if row.reply_to then
    local key = tostring(row.reply_to)
    local call = side.open[key]
    if call then return call, row.kind end
    return recent(side, key, time), row.kind
  end
  if row.kind == "part" then return side.order[side.order.first], "part" end
end

-- Notes a message; returns the call that it belongs to and its place in it. `link` is the
-- connection that carries the tunnel of the message.
local function match(connection, row, direction, frame, time, link)
  if connection.unsettled then settle(connection, row, direction, time) end
  if row.kind == "request" then
    local call = {
      request = frame, asked = time, target = row.target,
      connection = connection, link = link, answers = OPPOSITE[direction],
    }
    return request(connection, connection[direction], row, call)
  end
  local asked = OPPOSITE[direction]
  row.asked = asked
  if row.kind == "response" then
    return response(connection, connection[asked], row, frame, time)
  elseif row.kind == "part" or row.kind == "trace" then
    return about(connection[asked], row, time)
  elseif row.kind == "sealed" then
    connection.breaks[direction] = time
  end
end

-- Whether a call that has no response certainly had none in this capture.
local function unanswered(call)
  if call.response or call.unknown then return false end
  for _, each in ipairs({ call.connection, call.link }) do
    local found = each.breaks[call.answers]
    if found and found - call.asked >= 0 then return false end
  end
  return true
end

-- -- where bytes are in a stream ---------------------------------------------------------------

-- Wireshark has them when it builds a tree, as it does for every script that asks for fields. The
-- first pass of `tshark -2` is the exception, without a filter: packets count in the second one.
local TCP = {
  stream = Field.new("tcp.stream"), seq = Field.new("tcp.seq"), len = Field.new("tcp.len"),
  since = Field.new("tcp.time_relative"),
}
-- Which packets of a connection were captured (Wireshark 3.6), and the number that is on the wire.
local _, COMPLETENESS = pcall(Field.new, "tcp.completeness")
local _, RAW_SEQ = pcall(Field.new, "tcp.seq_raw")
local HEAD = 64 -- bytes by which the start of a message that continues is recognised

local function last_value(field)
  local found = { field() }
  return #found > 0 and found[#found].value or nil
end

-- The same of a field that older versions do not have.
local function value_if_known(field)
  return type(field) ~= "string" and last_value(field) or nil
end

-- The connection of a packet. Without its first packets there may be calls in progress.
local function connection_of(made, stream, time)
  local found = made.connections[stream]
  if not found then
    local seen = value_if_known(COMPLETENESS) or 0
    local since = last_value(TCP.since)
    local began = since and time - (since.secs * 1e9 + since.nsecs) or time
    found = new_connection(seen % 4 > 0, began)
    -- Numbers relative to a captured SYN: the first byte has number 1.
    local seq, raw = last_value(TCP.seq), value_if_known(RAW_SEQ)
    if seq and raw and seq ~= raw then
      if seen % 2 == 1 then found.streams.c2s = { at = 1, done = 1 } end
      if seen % 4 > 1 then found.streams.s2c = { at = 1, done = 1 } end
    end
    made.connections[stream] = found
  end
  return found
end

-- Finds where the bytes of a call of the dissector begin in their stream; returns whether bytes
-- are missing before them. Wireshark hands over what follows the last bytes that it was given
-- back, or, when there are none and at a gap, the payload of the packet: of one that repeats bytes
-- and has more, only these. `size`: how many bytes it hands over, captured or not.
local function locate(stream, raw, size, first)
  local before = stream.pending or 0
  stream.pending = 0
  if not first then return false end
  local seq, length = last_value(TCP.seq), last_value(TCP.len)
  if not seq or not length then return false end
  if before == 0 and size < length then seq = seq + length - size end
  if not stream.at then
    stream.at, stream.done = seq, seq
    return false
  end
  local ahead = (seq - stream.at) % TWO32
  if ahead >= TWO32 / 2 then ahead = ahead - TWO32 end
  if before > 0 and ahead < #raw then
    if #raw ~= length or raw:sub(1, #stream.head) == stream.head then return false end
  end
  stream.at = stream.at + ahead
  return ahead > before
end

-- Bytes that were read; returns whether they are new, and not those of a repeated packet.
local function advance(stream, size)
  if not stream.at then return true end
  stream.at = stream.at + size
  local new = stream.at > stream.done
  if new then stream.done = stream.at end
  return new
end

-- Bytes of a message that goes on; Wireshark hands them over again.
local function await(stream, raw, from)
  stream.pending, stream.head = #raw - from, raw:sub(from + 1, math.min(#raw, from + HEAD))
end
