-- ---------------------------------------------------------------------------------------------
-- Helpers that the readers of all protocols below use. Written for Lua 5.2 and later.
--
-- `s` is the state of one message being read:
--   tvb, raw    its bytes, as Wireshark and as Lua have them
--   at, stop    where the next byte is read, and where the present slice stops (both from 0)
--   origin      where the offsets in problems count from
--   open        the end of the message is not known yet: too few bytes mean "wait for more"
--   scanning    only the end of the message is wanted; nothing is shown
--   framed      a length that was read says where the message ends
--   sealed      a flag says that the bytes of a stage are transformed
--   direction   "c2s" or "s2c"
--   protocol    the protocol, with its ProtoFields (`fields`) and layouts (`layouts`)
--   shown       how many items may still be added to the tree of this packet
--   kept        values that the meaning of the message needs, of the present layout
--   opened      the same of stages that were read, and `rows` of rows
--   name        the layout of the message's body
--   concealed   bytes of the application are encrypted
--
-- Functions that read take `s`, then the tree item to add to (nil: add nothing), then the name
-- of the field, which is also its name in a problem. They stop with one of two kinds of error,
-- both tables: { code, field, at } when a rule is broken, { need } when bytes are missing.
-- ---------------------------------------------------------------------------------------------

local MAX_SHOWN = 200000 -- items in the tree of one packet; Wireshark itself gives up at a million
local MAX_SHOWN_DEPTH = 100 -- nesting of values that is shown; deeper ones are only checked
local MAX_TITLES = 8 -- messages in the Info column
local MAX_TEXT = 200 -- bytes of the text of one message there; longer ones are cut
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
  tree:add(SHARED.fields.fault, nowhere, problem.code):set_generated()
  tree:add(fields["malformed.code"], nowhere, problem.code):set_generated()
  tree:add(fields["malformed.field"], nowhere, problem.field or ""):set_generated()
  tree:add(fields["malformed.offset"], nowhere, problem.at):set_generated()
  tree:add_proto_expert_info(s.protocol.malformed, problem_text(problem))
end

-- -- values that the meaning of a message needs ---------------------------------------------------

local function keep(s, name, value, at, item)
  s.kept[name] = value
  return value, at, item
end

local function keep_text(s, name, size, at, item)
  s.kept[name] = s.raw:sub(at + 1, at + size)
  return size, at, item
end

-- Notes whether bytes are encrypted: those that begin with the mark, or all if there is none.
local function sealable(s, prefix, overhead, size, at, item)
  if size >= overhead and s.raw:sub(at + 1, at + #prefix) == prefix then s.concealed = true end
  return size, at, item
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

-- The signed number whose zigzag code is (low, high).
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
    return low + high, at, add(s, tree, field, at, s.at - at, low + high ~= 0)
  end
  return kind
end

-- -- bytes and text ----------------------------------------------------------------------------

-- The offset (from 0) of the first byte that is not valid UTF-8; nil when all are.
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

-- Reads a length or a count, shows it, and compares it with the number of bytes left.
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

-- Bytes or text after a length, or, without one, up to the end of the slice. `text` is nil,
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
