-- ---------------------------------------------------------------------------------------------
-- Helpers: what every protocol below is read with. Written for Lua 5.2 and later.
--
-- `s` is the state of one message being read:
--   tvb, raw    its bytes, as Wireshark and as Lua have them
--   at, stop    where the next byte is read, and where the present slice stops (both from 0)
--   origin      where the offsets in problems count from
--   open        the end of the message is not known yet: too few bytes mean "wait for more"
--   scanning    only the end of the message is wanted; nothing is shown
--   framed      a length has told where the message ends
--   sealed      a flag says that the bytes of a stage are transformed
--   direction   "c2s" or "s2c"
--   protocol    the protocol, with its ProtoFields (`fields`) and layouts (`layouts`)
--   shown       how many items may still be added to the tree of this packet
--
-- Functions that read take `s`, then the tree item to add to (nil: add nothing), then the name
-- of the field, which is also what a problem calls it. They stop with one of two kinds of error,
-- both tables: { code, field, at } when a rule is broken, { need } when bytes are missing.
-- ---------------------------------------------------------------------------------------------

local MAX_SHOWN = 200000 -- items in the tree of one packet; Wireshark itself gives up at a million
local MAX_SHOWN_DEPTH = 100 -- nesting of values that is shown; deeper ones are only checked
local MAX_TITLES = 8 -- names of messages in the Info column
local TWO32 = 4294967296 -- 2^32

local function fail(s, code, field, at)
  error({ code = code, field = field, at = at - s.origin }, 0)
end

-- `exact`: with these bytes the message is complete.
local function wait_for(bytes, exact)
  error({ need = bytes, exact = exact }, 0)
end

local function need(s, size, field)
  if s.at + size > s.stop then
    if s.open then wait_for(s.at + size - s.stop) end
    fail(s, "short", field, s.at)
  end
end

-- -- the tree ----------------------------------------------------------------------------------

local function may_show(s, tree)
  if not tree or s.shown <= 0 then return false end
  s.shown = s.shown - 1
  if s.shown == 0 then
    tree:add_proto_expert_info(s.protocol.unshown, "more fields than are shown")
    return false
  end
  return true
end

-- Adds a field that covers some bytes; its value is read from them unless it is given.
local function add(s, tree, field, at, size, value)
  if not may_show(s, tree) then return nil end
  local range = s.tvb:range(at, size)
  if value == nil then return tree:add(s.protocol.fields[field], range) end
  return tree:add(s.protocol.fields[field], range, value)
end

local function add_little(s, tree, field, at, size)
  if not may_show(s, tree) then return nil end
  return tree:add_le(s.protocol.fields[field], s.tvb:range(at, size))
end

local function add_text(s, tree, field, at, size)
  if not may_show(s, tree) then return nil end
  return tree:add_packet_field(s.protocol.fields[field], s.tvb:range(at, size), ENC_UTF_8)
end

-- Covers no bytes, so that none of them is shown anywhere.
local function add_masked(s, tree, field, at)
  return add(s, tree, field, at, 0, "<secret>")
end

-- An item with others inside, whose size is known only after them.
local function open_node(s, tree, field, at)
  return add(s, tree, field, at, s.stop - at)
end

local function close_node(node, at, stop)
  if node then node:set_len(stop - at) end
end

local function problem_text(problem)
  local where = problem.field and problem.field ~= "" and " in " .. problem.field or ""
  local meaning = MEANINGS[problem.code]
  return string.format("malformed: %s%s at byte %d%s",
    problem.code, where, problem.at, meaning and ": " .. meaning or "")
end

local function add_problem(s, tree, problem)
  if not tree then return end
  local fields, nowhere = s.protocol.fields, s.tvb:range(0, 0)
  tree:add(fields["malformed.code"], nowhere, problem.code):set_generated()
  tree:add(fields["malformed.field"], nowhere, problem.field or ""):set_generated()
  tree:add(fields["malformed.offset"], nowhere, problem.at):set_generated()
  tree:add_proto_expert_info(s.protocol.malformed, problem_text(problem))
end

-- -- numbers -----------------------------------------------------------------------------------

-- An unsigned number of up to four bytes.
local function number_at(s, at, size, little)
  local value = 0
  for i = 0, size - 1 do
    local position = little and at + size - 1 - i or at + i
    value = value * 256 + s.raw:byte(position + 1)
  end
  return value
end

-- Numbers of 64 bits are Wireshark's UInt64 and Int64; a length or a tag is wanted as a number.
local function plain(value)
  if type(value) == "userdata" then return value:tonumber() end
  return value
end

local function signed(value, bits)
  if value >= 2 ^ (bits - 1) then return value - 2 ^ bits end
  return value
end

local function read_int(s, size, is_signed, little)
  if size == 8 then
    local first, second = number_at(s, s.at, 4, little), number_at(s, s.at + 4, 4, little)
    if not little then first, second = second, first end
    return (is_signed and Int64 or UInt64)(first, second)
  end
  local value = number_at(s, s.at, size, little)
  return is_signed and signed(value, 8 * size) or value
end

-- An integer of `size` bytes.
local function int(size, is_signed, little)
  local kind = { least = size }
  function kind.read(s, field)
    need(s, size, field)
    local value = read_int(s, size, is_signed, little)
    s.at = s.at + size
    return value
  end
  function kind.put(s, tree, field)
    local at = s.at
    local value = kind.read(s, field)
    return value, at, (little and add_little or add)(s, tree, field, at, size)
  end
  return kind
end

-- LEB128: seven bits a byte, low ones first, as the two halves of a number of 64 bits.
local function leb128(s, field, loose)
  local start, low, high = s.at, 0, 0
  for shift = 0, 63, 7 do
    if s.at >= s.stop then
      if s.open then wait_for(1) end
      fail(s, "varint_truncated", field, start)
    end
    local byte = s.raw:byte(s.at + 1)
    local seven = byte % 128
    s.at = s.at + 1
    if shift < 28 then
      low = low + seven * 2 ^ shift
    elseif shift == 28 then
      low = low + (seven % 16) * 2 ^ 28
      high = math.floor(seven / 16)
    else
      high = high + seven * 2 ^ (shift - 32)
    end
    if byte < 128 then
      if high < TWO32 then return low, high end
      if loose then return low, high % TWO32 end
      break
    end
  end
  fail(s, "varint_overflow", field, start)
end

-- The number that zigzag folds into (low, high).
local function unfold(low, high, bits)
  local odd = low % 2 == 1
  if bits <= 32 then
    local half = math.floor(low / 2)
    return odd and -half - 1 or half
  end
  low, high = math.floor(low / 2) + (high % 2) * 2 ^ 31, math.floor(high / 2)
  if odd then low, high = TWO32 - 1 - low, TWO32 - 1 - high end
  return Int64(low, high)
end

-- A varint of at most `bits` bits; `coding` is "unsigned", "zigzag" or "twos". `loose` drops bits
-- that are too many, `narrow` does so within 64 bits, as protobuf does.
local function varint(bits, coding, loose, narrow)
  local kind = { least = 1 }
  function kind.read(s, field)
    local at = s.at
    local low, high = leb128(s, field, loose)
    if bits <= 32 then
      if loose or narrow then low, high = low % 2 ^ bits, 0 end
      if high > 0 or low >= 2 ^ bits then fail(s, "int_range", field, at) end
    elseif bits < 64 then
      if loose or narrow then high = high % 2 ^ (bits - 32) end
      if high >= 2 ^ (bits - 32) then fail(s, "int_range", field, at) end
    end
    if coding == "zigzag" then return unfold(low, high, bits) end
    if bits <= 32 then return coding == "twos" and signed(low, bits) or low end
    if coding == "unsigned" then return UInt64(low, high) end
    if high >= 2 ^ (bits - 33) then high = high + TWO32 - 2 ^ (bits - 32) end
    return Int64(low, high)
  end
  function kind.put(s, tree, field)
    local at = s.at
    local value = kind.read(s, field)
    return value, at, add(s, tree, field, at, s.at - at, value)
  end
  return kind
end

local function float(size, little)
  local kind = { least = size }
  function kind.put(s, tree, field)
    need(s, size, field)
    local at = s.at
    s.at = at + size
    return nil, at, (little and add_little or add)(s, tree, field, at, size)
  end
  return kind
end

-- One byte; `strict` refuses all but 0 and 1.
local function boolean(strict)
  local kind = { least = 1 }
  function kind.put(s, tree, field)
    need(s, 1, field)
    local at, value = s.at, s.raw:byte(s.at + 1)
    if strict and value > 1 then fail(s, "bad_bool", field, at) end
    s.at = at + 1
    return value, at, add(s, tree, field, at, 1, value ~= 0)
  end
  return kind
end

-- A protobuf boolean: a varint that is not zero.
local function varint_boolean()
  local kind = { least = 1 }
  function kind.put(s, tree, field)
    local at = s.at
    local low, high = leb128(s, field)
    return low, at, add(s, tree, field, at, s.at - at, low + high ~= 0)
  end
  return kind
end

-- -- bytes and text ----------------------------------------------------------------------------

-- Where the first byte stands that belongs to no UTF-8 character, from 0; nil when there is none.
local function bad_utf8(text)
  if not text:find("[\128-\255]") then return nil end
  local i, n = 1, #text
  while i <= n do
    local byte, extra, low, high = text:byte(i), 0, 0x80, 0xBF
    if byte >= 0xC2 and byte <= 0xDF then
      extra = 1
    elseif byte >= 0xE0 and byte <= 0xEF then
      extra = 2
      if byte == 0xE0 then low = 0xA0 elseif byte == 0xED then high = 0x9F end
    elseif byte >= 0xF0 and byte <= 0xF4 then
      extra = 3
      if byte == 0xF0 then low = 0x90 elseif byte == 0xF4 then high = 0x8F end
    elseif byte >= 0x80 then
      return i - 1
    end
    for k = i + 1, i + extra do
      local next_byte = text:byte(k)
      if not next_byte or next_byte < low or next_byte > high then return i - 1 end
      low, high = 0x80, 0xBF
    end
    i = i + extra + 1
  end
  return nil
end

-- Reads a length or a count, shows it, and compares what it promises with what is left.
local function counted(s, tree, field, suffix, kind, least)
  local at = s.at
  local count = plain(kind.read(s, field))
  if tree then
    s.at = at
    kind.put(s, tree, field .. suffix)
  end
  if count < 0 then fail(s, "negative_length", field, s.at) end
  if count * least > s.stop - s.at then fail(s, "length_overrun", field, s.at) end
  return count
end

-- Bytes or text behind a length, or, without one, up to the end of the slice. `text` is nil,
-- "loose", or "strict" for valid UTF-8 only.
local function blob(length, text)
  local kind = { least = length and length.least or 0 }
  function kind.put(s, tree, field)
    local size = length and counted(s, tree, field, ".length", length, 1) or s.stop - s.at
    local at = s.at
    if text == "strict" then
      local bad = bad_utf8(s.raw:sub(at + 1, at + size))
      if bad then fail(s, "invalid_utf8", field, at + bad) end
    end
    s.at = at + size
    return size, at, (text and add_text or add)(s, tree, field, at, size)
  end
  return kind
end

local function fixed(size)
  local kind = { least = size }
  function kind.put(s, tree, field)
    need(s, size, field)
    local at = s.at
    s.at = at + size
    return size, at, add(s, tree, field, at, size)
  end
  return kind
end

-- -- fields ------------------------------------------------------------------------------------

-- Reads a value of a type and shows it; returns the value (of bytes, their number), where it
-- begins, and its item.
local function put(s, tree, field, kind)
  return kind.put(s, tree, field)
end

-- Reads a value that must not be shown.
local function put_secret(s, tree, field, kind)
  local before = s.at
  local value, at = kind.put(s, nil, field)
  return value, at, add_masked(s, tree, field, before)
end

-- Refuses numbers outside a set, and sizes outside a set.
local function closed(s, field, set, value, at)
  if not set[plain(value)] then fail(s, "reserved_value", field, at) end
end

local function sized(s, field, set, size, at)
  if not set[size] then fail(s, "bad_length", field, at) end
end

-- A constant, judged by as many of its bytes as are there.
local function const(s, tree, field, bytes, code)
  local here = s.raw:sub(s.at + 1, math.min(s.stop, s.at + #bytes))
  if s.open and here ~= bytes:sub(1, #here) then fail(s, code, field, s.at) end
  need(s, #bytes, field)
  add(s, tree, field, s.at, #bytes)
  if here ~= bytes then fail(s, code, field, s.at) end
  s.at = s.at + #bytes
end

-- Bits in `size` bytes: each bit is { name, field, shift, width, role = , set = , flag = }.
local function bit_group(size, bits)
  return function(s, tree, head)
    need(s, size, bits[1].field)
    local at = s.at
    for _, bit in ipairs(bits) do
      local value
      if size <= 4 then
        value = math.floor(number_at(s, at, size) / 2 ^ bit.shift) % 2 ^ bit.width
      else
        value = s.tvb:range(at, size):bitfield(8 * size - bit.shift - bit.width, bit.width)
      end
      local number = plain(value)
      local item
      if size <= 4 then
        item = add(s, tree, bit.field, at, size)
      else
        item = add(s, tree, bit.field, at, size, bit.flag and number ~= 0 or not bit.flag and value)
      end
      if bit.role == "present" then
        head[bit.name] = number ~= 0
      elseif bit.role == "tag" then
        if not head.tag then head.tag, head.tag_field, head.tag_at = 0, bit.field, at end
        head.tag, head.tag_item = head.tag * 2 ^ bit.width + number, item
      else
        if bit.set and not bit.set[number] then fail(s, "reserved_value", bit.field, at) end
        if bit.flag and number ~= 0 then s.sealed = true end
      end
    end
    s.at = at + size
  end
end

-- -- layouts inside others -----------------------------------------------------------------------

-- Reads a layout in the present slice and puts the slice back as it was.
local function read_layout(s, tree, layout)
  local stop, open = s.stop, s.open
  s.protocol.layouts[layout](s, tree)
  s.stop, s.open = stop, open
end

-- Reads a layout in a slice of its own, which it must fill. What is wrong inside is shown there
-- and goes no further.
local function attempt(s, node, layout, at, stop, exact)
  local outer = { s.at, s.stop, s.open, s.origin, s.framed }
  s.at, s.stop, s.open, s.origin, s.framed = at, stop, false, at, true
  local ok, problem = pcall(function()
    if exact and stop - at ~= exact then fail(s, "bad_length", layout, at) end
    read_layout(s, node, layout)
    if s.at ~= stop then fail(s, "trailing_bytes", layout, s.at) end
  end)
  s.at, s.stop, s.open, s.origin, s.framed = outer[1], outer[2], outer[3], outer[4], outer[5]
  if ok then return end
  if type(problem) ~= "table" then error(problem, 0) end
  add_problem(s, node, problem)
end

local function nested(layout, least)
  local kind = { least = least }
  function kind.put(s, tree, field)
    local at = s.at
    local node = open_node(s, tree, field, at)
    read_layout(s, node, layout)
    close_node(node, at, s.at)
    return nil, at, node
  end
  return kind
end

-- A layout behind its length, as protobuf has it.
local function sized_nested(layout, length)
  local kind = { least = 1 }
  function kind.put(s, tree, field)
    local size = counted(s, tree, field, ".length", length, 1)
    local at, stop, open = s.at, s.stop, s.open
    s.stop, s.open = at + size, false
    local node = open_node(s, tree, field, at)
    read_layout(s, node, layout)
    s.stop, s.open = stop, open
    return nil, at, node
  end
  return kind
end

-- Items behind a count, or up to the end of the slice. A list of lists has a node for each.
local function many(item, count, least, of_lists)
  local kind = { least = count and count.least or 0 }
  function kind.put(s, tree, field)
    local at, item_field = s.at, of_lists and field .. ".item" or field
    local left = count and counted(s, tree, field, ".count", count, math.max(least, 1))
    while left and left > 0 or not left and s.at < s.stop do
      local before = s.at
      if of_lists then
        local node = open_node(s, tree, field, before)
        item.put(s, node, item_field)
        close_node(node, before, s.at)
      else
        item.put(s, tree, item_field)
      end
      if left then left = left - 1 elseif s.at == before then break end
    end
    return nil, at, nil
  end
  return kind
end

-- Bytes that hold a layout once any transform is undone: entered when no flag tells of one.
-- `masked`: the layout holds secrets, so its bytes are not shown as they are.
local function put_stage(s, tree, field, kind, layout, masked)
  local size, at, item = (masked and put_secret or put)(s, tree, field, kind)
  if item and not s.sealed then
    local node = add(s, item, layout, at, size)
    s.title = layout
    attempt(s, node, layout, at, at + size)
  end
  return size, at, item
end

-- Fields behind keys (number and wire type), in any order. Those without a reader are kept.
local skip_group

local function skip_field(s, field, number, wire, depth)
  if number == 0 then fail(s, "reserved_value", field, s.at) end
  if wire == 0 then
    leb128(s, field)
  elseif wire == 1 or wire == 5 then
    local size = wire == 1 and 8 or 4
    need(s, size, field)
    s.at = s.at + size
  elseif wire == 2 then
    local low, high = leb128(s, field)
    if high * TWO32 + low > s.stop - s.at then fail(s, "length_overrun", field, s.at) end
    s.at = s.at + low
  elseif wire == 3 then
    skip_group(s, field, number, depth)
  else
    fail(s, "reserved_value", field, s.at)
  end
end

local function read_key(s, field)
  local low, high = leb128(s, field)
  return high * 2 ^ 29 + math.floor(low / 8), low % 8
end

function skip_group(s, field, number, depth)
  if depth >= 32 then fail(s, "too_deep", field, s.at) end
  while true do
    local inner, wire = read_key(s, field)
    if wire == 4 then
      if inner ~= number then fail(s, "reserved_value", field, s.at) end
      return
    end
    skip_field(s, field, inner, wire, depth + 1)
  end
end

local function protobuf(s, tree, layout, readers)
  while s.at < s.stop do
    local at = s.at
    local number, wire = read_key(s, layout)
    local reader = readers[number * 8 + wire]
    if reader then
      reader(s, tree)
    else
      skip_field(s, layout, number, wire, 0)
      add(s, tree, layout .. ".unknown", at, s.at - at)
    end
  end
end

-- -- self-describing values ----------------------------------------------------------------------

-- A tag, then what the tag says. A kind is { name, type = } for a plain value, { name, count = }
-- for a list of such values, { name, count = , key = } for a list of pairs.
local function dynamic(name, spec)
  local read

  local function container(s, tree, kind, depth, budget)
    local field = name .. "." .. kind.name
    if depth >= spec.max_depth then fail(s, "too_deep", field, s.at) end
    local at = s.at
    local node = open_node(s, tree, field, at)
    local count = counted(s, node, field, ".count", kind.count, kind.key and 2 or 1)
    budget.left = budget.left - count
    if budget.left < 0 then fail(s, "too_many", field, s.at) end
    local inner = node
    if node and depth >= MAX_SHOWN_DEPTH then
      node:add_proto_expert_info(s.protocol.unshown, "deeper values are not shown")
      inner = nil
    end
    for _ = 1, count do
      if kind.key then kind.key.put(s, inner, field .. ".key") end
      local item_at = s.at
      local item = open_node(s, inner, name, item_at)
      read(s, item, depth + 1, budget)
      close_node(item, item_at, s.at)
    end
    close_node(node, at, s.at)
  end

  function read(s, tree, depth, budget)
    local tag, at = spec.tag.put(s, tree, name .. ".type")
    local kind = spec.kinds[plain(tag)]
    if not kind then fail(s, "unknown_var_type", name .. ".type", at) end
    if tree then tree:append_text(": " .. kind.name) end
    if kind.count then
      container(s, tree, kind, depth, budget)
    elseif kind.type then
      kind.type.put(s, tree, name .. "." .. kind.name)
    end
  end

  local self = { least = spec.tag.least }
  function self.put(s, tree, field)
    local at = s.at
    local node = open_node(s, tree, field, at)
    read(s, node, 0, { left = spec.max_nodes })
    close_node(node, at, s.at)
    return nil, at, node
  end
  return self
end

-- -- messages and their ends ---------------------------------------------------------------------

-- The number that chooses the body.
local function tag(s, tree, head, field, kind)
  local value, at, item = kind.put(s, tree, field)
  head.tag, head.tag_field, head.tag_at, head.tag_item = plain(value), field, at, item
end

-- Other numbers of a head, kept with where they stand.
local function mark(s, tree, head, field, kind)
  local value, at = kind.put(s, tree, field)
  head[field], head.places = plain(value), head.places or {}
  head.places[field] = at
end

-- A number that depends on the body; before that is known it must fit one of them.
local function tag_const(s, tree, head, field, kind, values)
  mark(s, tree, head, field, kind)
  if not values[head[field]] then fail(s, "bad_magic", field, head.places[field]) end
end

-- What a head with options must keep to, in the order of the rules.
local function judge(s, head, rules, length, length_field, length_at, limit)
  local rule = rules.tags[head.tag]
  if not rule then fail(s, "unknown_type", head.tag_field, head.tag_at) end
  if rule.const and head[rules.const] ~= rule.const then
    fail(s, "magic_mismatch", rules.const, head.places[rules.const])
  end
  local bits, size = head[rules.bits], head[rules.size]
  if size > length or (bits == 0) ~= (size == 0) then
    fail(s, "bad_header", rules.size, head.places[rules.size])
  end
  for _, bit in ipairs(rule.forbidden) do
    if math.floor(bits / bit) % 2 == 1 then
      fail(s, "bad_option", rules.bits, head.places[rules.bits])
    end
  end
  if length > limit or rule.limit and length > rule.limit then
    fail(s, "too_large", length_field, length_at)
  end
  local body_size = length - size
  if body_size < rule.least or rule.exact and body_size ~= rule.exact then
    fail(s, "bad_length", length_field, length_at)
  end
end

-- How many bytes follow, to the end of the layout. The first one of a message ends its frame.
local function length(s, tree, head, field, kind, least, limit, rules)
  local value, at = kind.put(s, tree, field)
  local size = plain(value)
  if not s.framed then
    if rules then
      judge(s, head, rules, size, field, at, limit)
    elseif size < least then
      fail(s, "bad_length", field, at)
    elseif size > limit then
      fail(s, "too_large", field, at)
    end
    local stop = s.at + size
    if s.open and stop > s.stop then wait_for(stop - s.stop, true) end
    if s.scanning then error({ stop = stop }, 0) end
    s.framed = true
  end
  if size > s.stop - s.at then fail(s, "length_overrun", field, s.at) end
  if size < least then fail(s, "bad_length", field, s.at) end
  s.stop, s.open = s.at + size, false
end

-- Nothing may be left when a layout with a length ends.
local function finish(s, layout)
  if s.at ~= s.stop then fail(s, "trailing_bytes", layout, s.at) end
end

-- For each set bit, ascending, a length and a value.
local function options(s, tree, head, spec)
  local bits, area = head[spec.bits], s.at + head[spec.size]
  for shift = 0, spec.count - 1 do
    local flag = 2 ^ shift
    if math.floor(bits / flag) % 2 == 1 then
      local known = spec.fields[flag]
      local field = known and known.field or spec.unknown
      local at = s.at
      if at + spec.length.least > area then fail(s, "bad_header", field, at) end
      local size = plain(spec.length.read(s, field))
      if s.at + size > area then fail(s, "bad_header", field, at) end
      if known and size ~= known.kind.least then fail(s, "bad_option", field, at) end
      local stop = s.at + size
      local node = tree
      if not known then
        node = open_node(s, tree, field, at)
        close_node(node, at, stop)
        add(s, node, field .. ".bit", at, 0, flag)
      end
      s.at = at
      spec.length.put(s, node, field .. ".length")
      if known then
        (known.secret and put_secret or put)(s, node, field, known.kind)
      else
        add(s, node, field .. ".data", s.at, size)
        s.at = stop
      end
    end
  end
  if s.at ~= area then fail(s, "bad_header", spec.size, s.at) end
end

-- What the tag, and the direction, chose.
local function body(s, tree, head, choice)
  local layouts = choice[s.direction] or choice.both
  local layout = layouts[head.tag]
  if not layout then fail(s, "unknown_type", head.tag_field, head.tag_at) end
  if head.tag_item and choice.says then
    head.tag_item:append_text(" (" .. (choice.says[head.tag] or layout) .. ")")
  end
  s.title = layout
  local at = s.at
  local node = open_node(s, tree, layout, at)
  read_layout(s, node, layout)
  close_node(node, at, s.at)
end

-- Rows of (tag, size, body) up to the end row.
local function rows(spec)
  local kind = { least = spec.tag.least + spec.size.least }

  local function head_of_row(s, field, start)
    local at = s.at
    local row_tag, size = plain(spec.tag.read(s, field)), plain(spec.size.read(s, field))
    if s.at + size - start > spec.limit then fail(s, "too_large", field, at) end
    if row_tag == spec.stop and size > 0 then fail(s, "bad_end", field, at) end
    if s.at + size > s.stop then
      if s.open then wait_for(s.at + size - s.stop) end
      fail(s, "short", field, s.at)
    end
    return at, row_tag, size
  end

  local function show_row(s, tree, field, at, row_tag, size)
    local layout = spec.layouts[row_tag]
    local node_field = row_tag == spec.stop and field .. ".end" or layout or spec.opaque
    local node = add(s, tree, node_field, at, s.at + size - at)
    local data, stop = s.at, s.at + size
    s.at = at
    spec.tag.put(s, node, field .. ".type")
    spec.size.put(s, node, field .. ".size")
    if layout then
      attempt(s, node, layout, data, stop, spec.exact[row_tag])
    elseif row_tag ~= spec.stop then
      add(s, node, spec.opaque .. ".data", data, size)
    end
  end

  function kind.put(s, tree, field)
    local start, count = s.at, 0
    while true do
      local at, row_tag, size = head_of_row(s, field, start)
      if tree then show_row(s, tree, field, at, row_tag, size) end
      s.at = at + kind.least + size
      if row_tag == spec.stop then return nil, start, nil end
      count = count + 1
      if count > spec.max then fail(s, "too_many", field, s.at) end
    end
  end
  return kind
end

-- -- protocols in Wireshark ----------------------------------------------------------------------

-- A protocol with its preference, before its fields and layouts are declared.
local function protocol(name, title, port)
  local full = "wirehouse." .. name
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

-- Who speaks: the port of the server tells, else the lower port is taken for the server's.
local function direction_of(made, pinfo)
  local port = made.proto.prefs.port
  if pinfo.dst_port == port then return "c2s" end
  if pinfo.src_port == port then return "s2c" end
  return pinfo.dst_port <= pinfo.src_port and "c2s" or "s2c"
end

local function new_state(made, tvb, raw, at, stop, direction)
  return {
    protocol = made, tvb = tvb, raw = raw, at = at, stop = stop, origin = at,
    direction = direction, open = false, scanning = false, framed = false, sealed = false, shown = 0,
  }
end

-- Where the message at a place stops; or nil and { need }; or nil and a problem.
local function scan(made, tvb, raw, at, direction)
  local s = new_state(made, tvb, raw, at, #raw, direction)
  s.open, s.scanning = true, true
  local ok, result = pcall(made.layouts[made.frame], s, nil)
  if ok then return s.at end
  if type(result) ~= "table" then error(result, 0) end
  if result.stop then return result.stop end
  return nil, result
end

-- Shows one message. `judged` is what `scan` found instead of its end.
local function show(made, tvb, raw, at, stop, direction, tree, shown, judged)
  local root = tree:add(made.proto, tvb:range(at, stop - at))
  local s = new_state(made, tvb, raw, at, stop, direction)
  s.shown, s.title = shown, made.frame
  local ok, problem = pcall(made.layouts[made.frame], s, root)
  if not ok and type(problem) ~= "table" then error(problem, 0) end
  if ok then problem = judged end
  local mark_text = ""
  if judged and judged.need then
    mark_text = " [incomplete]"
    root:add_proto_expert_info(made.incomplete, "incomplete: more bytes wanted: " .. judged.need)
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
  local before = pinfo.private["wirehouse"]
  if before then text = before .. ", " .. text end
  pinfo.private["wirehouse"] = text
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

-- Makes Wireshark use the protocol; `frame` is the layout of its messages.
local function register(made, frame)
  made.frame = frame
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
