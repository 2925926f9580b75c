-- -- messages and their ends ---------------------------------------------------------------------

-- The number that chooses the body.
local function tag(s, tree, head, field, kind)
  local value, at, item = kind.put(s, tree, field)
  head.tag, head.tag_field, head.tag_at, head.tag_item = plain(value), field, at, item
end

-- Other numbers of a header, kept with their offsets.
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

-- Checks a header with options, in the order of the rules.
local function check_head(s, head, rules, length, length_field, length_at, limit)
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
      check_head(s, head, rules, size, field, at, limit)
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
        local value, from = (known.secret and put_secret or put)(s, node, field, known.kind)
        if known.keep then known.keep(s, known.name, value, from) end
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
  local size = choice.sizes and choice.sizes[head.tag]
  if s.scanning and size and s.at + size <= s.stop then -- its end is known without reading it
    s.at = s.at + size
    return
  end
  s.title = layout
  if choice.frame then s.name = layout end
  local at, outer, kept = s.at, s.kept, {}
  local node = open_node(s, tree, layout, at)
  s.kept, outer["@" .. layout] = kept, kept
  read_layout(s, node, layout)
  s.kept = outer
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
      local kept = attempt(s, node, layout, data, stop, spec.exact[row_tag])
      if kept then s.rows[#s.rows + 1] = { name = layout, kept = kept } end
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
      if count > spec.max and not s.scanning then fail(s, "too_many", field, s.at) end
    end
  end
  return kind
end
