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

-- A constant. Its first bytes are compared even when the rest has not arrived, so that a wrong
-- one is refused at once instead of waiting for more.
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
        if bit.keep then s.kept[bit.keep] = value end
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

-- Reads a layout in a slice of its own, which it must fill. An error inside is shown there
-- and is not passed on; else the values that it kept are returned.
local function attempt(s, node, layout, at, stop, exact)
  local outer, kept = { s.at, s.stop, s.open, s.origin, s.framed, s.kept }, {}
  s.at, s.stop, s.open, s.origin, s.framed, s.kept = at, stop, false, at, true, kept
  local ok, problem = pcall(function()
    if exact and stop - at ~= exact then fail(s, "bad_length", layout, at) end
    read_layout(s, node, layout)
    if s.at ~= stop then fail(s, "trailing_bytes", layout, s.at) end
  end)
  s.at, s.stop, s.open, s.origin, s.framed = outer[1], outer[2], outer[3], outer[4], outer[5]
  s.kept = outer[6]
  if ok then return kept end
  if type(problem) ~= "table" then error(problem, 0) end
  add_problem(s, node, problem)
end

-- Reads a layout whose values are kept under the last part of the name of its field.
local function read_kept(s, tree, layout, field)
  local outer, kept = s.kept, {}
  s.kept = kept
  read_layout(s, tree, layout)
  s.kept = outer
  outer[field:match("[^.]*$")] = kept
end

-- `keeps`: the meaning of the message needs values inside.
local function nested(layout, least, keeps)
  local kind, read = { least = least }, keeps and read_kept or read_layout
  function kind.put(s, tree, field)
    local at = s.at
    local node = open_node(s, tree, field, at)
    read(s, node, layout, field)
    close_node(node, at, s.at)
    return nil, at, node
  end
  return kind
end

-- A layout after its length, as in protobuf.
local function sized_nested(layout, length, keeps)
  local kind, read = { least = 1 }, keeps and read_kept or read_layout
  function kind.put(s, tree, field)
    local size = counted(s, tree, field, ".length", length, 1)
    local at, stop, open = s.at, s.stop, s.open
    s.stop, s.open = at + size, false
    local node = open_node(s, tree, field, at)
    read(s, node, layout, field)
    s.stop, s.open = stop, open
    return nil, at, node
  end
  return kind
end

-- Items after a count, or up to the end of the slice. A list of lists has a node for each.
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

-- Bytes that hold a layout once any transform is undone: read when no flag says there is one.
-- `masked`: the layout holds secrets, so its bytes are not shown as they are.
local function put_stage(s, tree, field, kind, layout, masked)
  local size, at, item = (masked and put_secret or put)(s, tree, field, kind)
  if item and not s.sealed then
    local node = add(s, item, layout, at, size)
    s.title = layout
    s.opened[layout] = attempt(s, node, layout, at, at + size)
  end
  return size, at, item
end

-- Fields after keys (number and wire type), in any order. Those without a reader are kept.
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

-- Bytes that the dialect does not parse.
local function ignored(s, tree, field)
  if s.at < s.stop then add(s, tree, field, s.at, s.stop - s.at) end
  s.at = s.stop
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
