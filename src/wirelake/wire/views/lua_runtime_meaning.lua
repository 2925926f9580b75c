-- -- what messages mean --------------------------------------------------------------------------

-- The terms of a protocol's meaning, as functions of a message:
--   kept     values that its layouts kept: fields by name, bodies by "@" and the name of the layout;
--            a body and a nested layout have a table of their own
--   opened   the same of its stages, by name
--   rows     the same of its rows, in order: { name, kept }
--   name     that of its body, or of the frame
-- A term has a value, or nil.
local term = {}

-- A number in decimal digits; two numbers are the same if these are.
local function digits(value)
  if type(value) == "userdata" then return tostring(value) end
  return string.format("%.0f", value)
end

-- Tables have ids as signed numbers of 64 bits.
local function int64(value)
  if type(value) == "userdata" then return Int64(value:lower(), value:higher()) end
  return Int64.new(value % TWO32, math.floor(value / TWO32) % TWO32)
end

local function walked(value, path)
  for _, step in ipairs(path) do
    if value == nil then return nil end
    value = value[step]
  end
  return value
end

function term.at(...)
  local path = { ... }
  return function(m) return walked(m.kept, path) end
end

function term.opened(...)
  local path = { ... }
  return function(m) return walked(m.opened, path) end
end

function term.name()
  return function(m) return m.name end
end

function term.constant(value)
  return function() return value end
end

function term.named(texts, default)
  return function(m)
    if m.name then return texts[m.name] or default end
  end
end

function term.values(of, texts, default, in_digits)
  return function(m)
    local value = of(m)
    if value == nil then return nil end
    return texts[plain(value)] or in_digits and digits(value) or default
  end
end

function term.text(of)
  return function(m)
    local value = of(m)
    if value ~= nil then return digits(value) end
  end
end

function term.first(...)
  local terms = { ... }
  return function(m)
    for _, each in ipairs(terms) do
      local value = each(m)
      if value ~= nil then return value end
    end
  end
end

function term.join(separator, ...)
  local terms = { ... }
  return function(m)
    local found = {}
    for _, each in ipairs(terms) do found[#found + 1] = each(m) end
    if #found > 0 then return table.concat(found, separator) end
  end
end

local function first_row(m, name, field, number)
  for _, row in ipairs(m.rows) do
    if row.name == name and (not field or plain(row.kept[field]) == number) then return row.kept end
  end
end

function term.row_field(name, wanted, field, number)
  return function(m)
    local row = first_row(m, name, field, number)
    return row and row[wanted]
  end
end

function term.has_row(name, field, number)
  return function(m) return first_row(m, name, field, number) ~= nil end
end

function term.is(of, numbers)
  return function(m)
    local value = of(m)
    return value ~= nil and numbers[plain(value)] == true
  end
end

function term.equal(left, right)
  return function(m)
    local one, other = left(m), right(m)
    return one ~= nil and other ~= nil and digits(one) == digits(other)
  end
end

function term.choose(test, yes, no)
  return function(m)
    if test(m) then return yes(m) end
    return no(m)
  end
end

function term.nothing()
  return nil
end

-- The columns of a message that its meaning determines.
local function describe(meaning, m)
  local row = {}
  for column, term in pairs(meaning.columns) do row[column] = term(m) end
  row.message_id = row.message_id and int64(row.message_id)
  row.reply_to = row.reply_to and int64(row.reply_to)
  return row
end

-- Text that fits a column: without control characters, and of a bounded length.
local function clean(value)
  value = value:gsub("%c", "?")
  if #value <= MAX_TEXT then return value end
  local stop = MAX_TEXT
  while stop > 0 and value:byte(stop + 1) >= 0x80 and value:byte(stop + 1) < 0xC0 do
    stop = stop - 1
  end
  return value:sub(1, stop) .. "…"
end

-- A row in the Info column: kind, target, status and reason. A response without a target has that
-- of its call; a message that has none its name.
local function summary(row, call)
  local target = row.target or call and call.target
  local noun, words = target or row.name, row.kind or ""
  if noun and noun ~= words then
    -- "event" says nothing about a message that the protocol does not describe further.
    words = words == "event" and not target and noun or words .. " " .. noun
  end
  if row.status then words = words .. ": " .. row.status end
  if row.reason then words = words .. " (" .. row.reason .. ")" end
  return clean(words)
end
