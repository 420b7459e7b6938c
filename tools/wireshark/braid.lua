-- SPDX-License-Identifier: BSD-3-Clause
-- Wireshark dissector of everything that braid says over TCP and UDP. doc/wireshark.md says how to use it, doc/wire.md what
-- the fields mean; the names of kinds and types are those of the C headers (tests/lint/test_wireshark.sh compares).
--
-- 1. braid has no ports of its own, so packets are known by their first bytes (heuristics). A TCP stream that has begun
--    as braid's stays braid's; what a stream carries is kept in `streams`.
-- 2. A stream that does not start on a frame (the capture began late, or lost segments) is read again from the next bytes that
--    look like a frame; what lies before is shown as skipped.
-- 3. A datagram may be a train of packets that the kernel cuts or has joined (UDP_SEGMENT, UDP_GRO). The next one begins where a magic
--    stands before the 64-bit number of a link that is known.
-- 4. Bytes are shown as what they are: proofs cannot be checked without the secret, payload is not interpreted.
local braid = Proto("braid", "braid transport")
local bit = bit or bit32 or require("bit")

local FRAME_HEADER, INLINE, MAX_PAYLOAD = 64, 48, 16 * 1024 * 1024
local EAGER_INLINE, RKEY_BYTES, DATA_HEADER = 24, 16, 40

-- ---- names, by the enums of the headers --------------------------------------------------------

local frame_kind = {[1] = "MESSAGE", [2] = "DATA"}
local message_type = {
    [1] = "HANDSHAKE", [2] = "EAGER", [3] = "READY", [4] = "PUT", [5] = "GET", [6] = "DONE", [7] = "ACK", [8] = "PING",
    [9] = "PONG", [10] = "RAIL_DOWN", [11] = "RAIL_FENCED", [12] = "ABORT", [13] = "BYE", [14] = "RELAY",
    [15] = "RELAY_CREDIT", [16] = "WAITING", [17] = "RENEW", [18] = "ATOMIC", [19] = "ANNOUNCE", [20] = "LEFT", [21] = "IDLE",
    [22] = "PUT_DONE", [23] = "PUTS",
}
local abort_reason = {[0] = "CANCELED", [1] = "LOST", [2] = "DEADLINE", [3] = "DISAGREE"}
local relay_kind = {[1] = "OPEN", [2] = "FRAME", [3] = "CLOSE", [4] = "UNREACHABLE", [5] = "REQUEST"}
local handshake_kind = {[1] = "HELLO", [2] = "CHALLENGE", [3] = "PROOF", [4] = "WELCOME", [5] = "REFUSE"}
local handshake_reason = {
    [1] = "MALFORMED", [2] = "VERSION", [3] = "SECRET", [4] = "SIZE", [5] = "RANK", [6] = "SELF", [7] = "RAIL",
    [8] = "STALE",
}
local store_kind = {
    [1] = "HELLO", [2] = "CHALLENGE", [3] = "PROOF", [4] = "WELCOME", [5] = "PUT", [6] = "GET", [7] = "GATHER",
    [8] = "VALUE", [9] = "ERROR", [10] = "BYE",
}
local dgram_kind = {
    [1] = "OPEN", [2] = "OPENED", [3] = "CONFIRM", [4] = "CONFIRMED", [5] = "DATA", [6] = "PING", [7] = "ACK", [8] = "CLOSE",
}
local tag_family = {[0] = "COLLECTIVE", [2] = "P2P", [3] = "ONESIDED"}
local onesided_part = {[0] = "REQUEST", [1] = "DATA", [2] = "STATUS"}
local atomic_operation = {[0] = "ADD", [1] = "SWAP", [2] = "SET"}

-- ---- fields ------------------------------------------------------------------------------------

local F = {} -- by the name behind "braid."

local function field(kind, name, label, ...)
    F[name] = ProtoField[kind]("braid." .. name, label, ...)
end

local function numbers(size, group, names)
    for name, label in pairs(names) do
        field("uint" .. size, group .. name, label, base.DEC)
    end
end

field("uint16", "frame.magic", "Magic", base.HEX)
numbers("8", "frame.", {version = "Version"})
field("uint8", "frame.kind", "Kind", base.DEC, frame_kind)
field("uint32", "frame.slot", "Slot", base.HEX)
numbers("32", "frame.", {length = "Payload bytes", offset = "Offset in the transfer, or flags of a message"})
field("bytes", "payload", "Payload")
field("bytes", "skipped", "Bytes of a frame whose start is not in the capture")
field("bool", "placed.ack", "Asks for ACK", 8, nil, 1)
field("bool", "placed.done", "Asks for DONE", 8, nil, 2)

field("uint8", "message.type", "Message", base.DEC, message_type)
field("uint16", "message.check", "Digest of the arguments", base.HEX)
numbers("32", "message.", {sequence = "Sequence", bytes = "Bytes of the transfer"})
field("uint32", "message.rkeys", "Rails with remote keys", base.HEX)
field("bytes", "message.rkey", "Remote key")
field("uint64", "tag", "Tag", base.HEX)
field("uint8", "tag.family", "Family", base.DEC, tag_family)
numbers("32", "tag.", {
    group = "Communicator", number = "Number in it", fragment = "Fragment", message = "Message between the two ranks",
    user = "User's tag",
})
field("uint64", "tag.counter", "Requester's counter", base.DEC)
field("bool", "tag.larger", "Requester is the larger rank", 8, nil, 4)
field("uint8", "tag.part", "Part", base.DEC, onesided_part, 3)
field("uint32", "slot", "Slot", base.HEX)
field("uint32", "renews", "Slot so far", base.HEX)
field("uint64", "total", "Bytes of the whole message, or elements of a block", base.DEC)
field("uint32", "call_root", "Root of the call", base.DEC)
field("uint8", "call_collective", "Collective", base.DEC)
field("uint8", "call_type", "Type of an element", base.DEC)
field("uint8", "call_reduction", "Reduction", base.DEC)
field("uint8", "call_by", "By (1 messages, 2 shared memory, 3 one of both)", base.DEC)
field("uint64", "have", "Slices that are complete", base.HEX)
field("uint64", "onesided.offset", "Offset in the region", base.DEC)
field("uint64", "onesided.check", "Check of the key", base.HEX)
field("uint32", "onesided.region", "Region", base.DEC)
field("uint32", "onesided.operation", "Operation", base.DEC, atomic_operation)
field("uint64", "onesided.value", "Value", base.HEX)
field("uint64", "notify.value", "Value of the notification", base.DEC)
field("uint64", "notify.offset", "Offset of the number that changes", base.DEC)
field("uint32", "notify.region", "Region of that number", base.DEC)
field("uint32", "notify.operation", "How it changes", base.DEC, atomic_operation)
field("uint32", "notify.group", "Communicator that is notified", base.DEC)
field("uint64", "onesided.compare", "Compared with", base.HEX)
field("bytes", "put_done.puts", "Puts carried out (bit i: the i-th behind the tag's)")
field("uint32", "puts.count", "Puts", base.DEC)
numbers("16", "eager.", {
    released = "Messages released, lower half", released_units = "256 bytes of their payload released, lower half",
})
field("uint64", "ack.bytes", "DATA bytes arrived", base.DEC)
numbers("32", "ack.", {
    arrived = "Numbered messages arrived", released = "Numbered messages released",
    ahead = "DATA bytes that may come ahead", released_bytes = "Payload of messages released",
})
numbers("32", "", {rail = "Rail", incarnation = "Incarnation", lost = "Frames may be lost"})
numbers("32", "bye.", {p2p = "Messages sent point to point", others = "Other numbered messages sent"})
field("uint32", "abort.reason", "Reason", base.DEC, abort_reason)
field("string", "words", "Words")
field("uint8", "relay.kind", "Kind", base.DEC, relay_kind, 0x7f)
field("bool", "relay.ack", "Asks for ACK", 8, nil, 0x80)
numbers("8", "relay.", {hosts = "Ranks in the path", at = "Receiver's place in the path"})
field("int16", "relay.priority", "Priority", base.DEC)
numbers("16", "relay.", {rank = "Rank"})
field("uint32", "relay.id", "Route", base.HEX)
numbers("32", "relay.", {number = "Number"})
field("bytes", "relay_back.free", "Buffers free again, by class")

field("uint8", "handshake.kind", "Handshake", base.DEC, handshake_kind)
numbers("16", "handshake.", {version_min = "Least version", version_max = "Largest version", version = "Version"})
numbers("32", "handshake.", {
    rank = "Rank", size = "Ranks of the job", peer = "Wanted rank", rail = "Rail", incarnation = "Incarnation",
    frame_bytes = "Largest frame", message_bytes = "Largest message", eager_bytes = "Eager bytes",
    slice_bytes = "Slice bytes", ours = "Of the refusing side", yours = "Of the refused side",
})
field("uint32", "handshake.reason", "Reason", base.DEC, handshake_reason)
field("bytes", "nonce", "Nonce")
field("bytes", "proof", "Proof of the secret (BLAKE2b with a key derived from it; not checked)")

numbers("16", "store.", {version = "Version"})
field("uint16", "store.kind", "Store", base.DEC, store_kind)
numbers("32", "store.", {
    bytes = "Bytes of the body", rank = "Rank", size = "Ranks of the job", pid = "Process",
    timeout = "Timeout (ms)", key_bytes = "Bytes of the key", value_bytes = "Bytes of the value", errno = "errno",
})
field("string", "store.host", "Host")
field("string", "store.key", "Key")
field("bytes", "store.value", "Value")

numbers("8", "datagram.", {version = "Version", paths = "Paths"})
field("uint8", "datagram.kind", "Datagram", base.DEC, dgram_kind)
field("uint32", "datagram.checksum", "Checksum", base.HEX)
field("uint8", "datagram.checksum.status", "Checksum status", base.DEC, {[0] = "Bad", [1] = "Good", [2] = "Unverified"})
field("uint64", "datagram.link", "Link (number at the receiver)", base.HEX)
field("uint64", "datagram.from", "Link (number at the sender)", base.HEX)
numbers("32", "datagram.", {
    number = "Packet", size = "Bytes of a packet, at most", frame = "Frame", order = "Order", offset = "Offset in the transfer",
})
field("uint32", "datagram.slot", "Slot", base.HEX)
field("uint32", "datagram.length", "Payload bytes of the frame", base.DEC, nil, 0x1ffff)
field("uint32", "datagram.part", "Part", base.DEC, nil, 0x7e0000)
field("uint32", "datagram.frame_kind", "Kind of the frame", base.DEC, frame_kind, 0x1800000)
field("uint32", "datagram.path", "Path", base.DEC, nil, 0xe000000)
field("bool", "datagram.header_only", "Checksum does not cover the payload", 32, nil, 0x10000000)
field("bool", "datagram.asks", "Asks for ACK", 32, nil, 0x20000000)
field("framenum", "datagram.first", "This part was first sent in", base.NONE)
field("uint64", "ack.top", "Largest number arrived", base.DEC)
field("uint64", "ack.latest", "Number that arrived last", base.DEC)
numbers("32", "ack.", {
    delay = "ns since then", marked = "Packets with a congestion mark", messages = "Messages below this number may be sent",
})
numbers("8", "ack.", {path = "Path of that number", ranges = "Ranges"})
numbers("16", "ack.", {gap = "Not arrived", run = "Arrived"})

numbers("16", "beacon.", {version = "Version", nic = "NIC"})
numbers("32", "beacon.", {rank = "Rank"})
numbers("8", "verbs.", {version = "Version", mtu = "MTU (enum ibv_mtu)", go = "The queue pair can receive"})
numbers("16", "verbs.", {lid = "LID"})
numbers("32", "verbs.", {qp = "Queue pair", psn = "First packet number", message_bytes = "Largest message"})
field("bytes", "verbs.gids", "GIDs, and their types")
numbers("32", "perf.", {bytes = "Bytes of the text"})
field("string", "perf.text", "Parameters")

local E = {
    skipped = ProtoExpert.new("braid.expert.skipped", "The start of this frame is not in the capture",
        expert.group.SEQUENCE, expert.severity.NOTE),
    checksum = ProtoExpert.new("braid.expert.checksum", "The checksum is wrong", expert.group.CHECKSUM,
        expert.severity.ERROR),
    unknown = ProtoExpert.new("braid.expert.unknown", "A kind, type or length that this dissector does not know",
        expert.group.UNDECODED, expert.severity.WARN),
    short = ProtoExpert.new("braid.expert.short", "Shorter than it says", expert.group.MALFORMED, expert.severity.ERROR),
    again = ProtoExpert.new("braid.expert.again", "Sent again", expert.group.SEQUENCE, expert.severity.NOTE),
    refused = ProtoExpert.new("braid.expert.refused", "Refused, lost or failed", expert.group.RESPONSE_CODE,
        expert.severity.WARN),
}
local listed, experts = {}, {}
for _, f in pairs(F) do
    listed[#listed + 1] = f
end
for _, e in pairs(E) do
    experts[#experts + 1] = e
end
braid.fields = listed
braid.experts = experts
braid.prefs.checksum = Pref.bool("Verify the CRC32C of datagrams", false, "Costs time: Lua computes it byte by byte")

-- Adds {name, offset, bytes} ... to a tree, each little-endian.
local function add(tree, tvb, list)
    for _, f in ipairs(list) do
        tree:add_le(F[f[1]], tvb(f[2], f[3]))
    end
end

local function u8(tvb, at) return tvb(at, 1):uint() end
local function u16(tvb, at) return tvb(at, 2):le_uint() end
local function u32(tvb, at) return tvb(at, 4):le_uint() end

-- Warns and returns false when fewer than `bytes` are there.
local function has(tree, tvb, bytes)
    if tvb:len() < bytes then
        tree:add_proto_expert_info(E.short)
        return false
    end
    return true
end

local function name_of(names, n)
    return names[n] or string.format("unknown (%d)", n)
end

-- ---- messages ----------------------------------------------------------------------------------

local function add_tag(tree, tvb)
    local low, high = u32(tvb, 0), u32(tvb, 4)
    local family = bit.band(bit.rshift(high, 30), 3)
    local t = tree:add_le(F["tag"], tvb(0, 8))
    local group, number = bit.band(bit.rshift(high, 20), 0x3ff), bit.band(high, 0xfffff)
    local fragment, k = bit.band(bit.rshift(low, 16), 0xffff), bit.band(low, 0xffff)

    t:add(F["tag.family"], tvb(7, 1), family)
    if family == 3 then
        t:add(F["tag.counter"], tvb(0, 8), UInt64(low, bit.band(high, 0x3fffffff)):rshift(3))
        t:add(F["tag.larger"], tvb(0, 1))
        t:add(F["tag.part"], tvb(0, 1))
        return "one-sided " .. name_of(onesided_part, bit.band(low, 3))
    end
    t:add(F["tag.group"], tvb(6, 2), group)
    t:add(F["tag.number"], tvb(4, 3), number)
    if family == 2 then
        t:add_le(F["tag.user"], tvb(0, 4))
        return string.format("point to point %d/%d tag %d", group, number, low)
    end
    t:add(F["tag.fragment"], tvb(2, 2), fragment)
    t:add(F["tag.message"], tvb(0, 2), k)
    return string.format("collective %d/%d fragment %d message %d", group, number, fragment, k)
end

local LIMITS = {{"handshake.frame_bytes", 0, 4}, {"handshake.message_bytes", 4, 4}, {"handshake.eager_bytes", 8, 4},
    {"handshake.slice_bytes", 12, 4}}
local handshake_bytes = {[1] = 80, [2] = 68, [3] = 40, [4] = 40, [5] = 20}

local function dissect_handshake(tvb, tree)
    if not has(tree, tvb, 8) then
        return "HANDSHAKE"
    end
    local kind = u8(tvb, 4)
    local t = tree:add(tvb(), "Handshake: " .. name_of(handshake_kind, kind))
    local text = "handshake " .. name_of(handshake_kind, kind)

    t:add(F["handshake.kind"], tvb(4, 1))
    if tvb(0, 4):string() ~= "RBHS" or not handshake_bytes[kind] then
        t:add_proto_expert_info(E.unknown)
    elseif not has(t, tvb, handshake_bytes[kind]) then
        return text
    elseif kind == 1 then
        add(t, tvb, {{"handshake.version_min", 8, 2}, {"handshake.version_max", 10, 2}, {"handshake.rank", 12, 4},
            {"handshake.size", 16, 4}, {"handshake.peer", 20, 4}, {"handshake.rail", 24, 4},
            {"handshake.incarnation", 28, 4}, {"nonce", 48, 32}})
        add(t, tvb(32, 16):tvb(), LIMITS)
        text = string.format("%s rank %d of %d to rank %d, rail %d", text, u32(tvb, 12), u32(tvb, 16), u32(tvb, 20),
            u32(tvb, 24))
    elseif kind == 2 then
        add(t, tvb, {{"handshake.version", 8, 2}, {"handshake.rank", 12, 4}, {"handshake.size", 16, 4},
            {"nonce", 36, 32}})
        add(t, tvb(20, 16):tvb(), LIMITS)
        text = string.format("%s rank %d of %d", text, u32(tvb, 12), u32(tvb, 16))
    elseif kind == 5 then
        add(t, tvb, {{"handshake.reason", 8, 4}, {"handshake.ours", 12, 4}, {"handshake.yours", 16, 4}})
        t:add_proto_expert_info(E.refused)
        text = text .. " " .. name_of(handshake_reason, u32(tvb, 8))
    else
        add(t, tvb, {{"proof", 8, 32}})
    end
    return text
end

-- READY carries one remote key for each rail whose bit is set.
local function add_rkeys(tree, rkeys, payload)
    local at = 0

    for rail = 0, 31 do
        if payload and bit.band(rkeys, bit.lshift(1, rail)) ~= 0 and at + RKEY_BYTES <= payload:len() then
            tree:add(F["message.rkey"], payload(at, RKEY_BYTES)):append_text(" for rail " .. rail)
            at = at + RKEY_BYTES
        end
    end
end

local dissect_frame -- a relayed frame has a frame in it

local function dissect_relay(tvb, payload, pinfo, tree)
    local what, hosts, at = bit.band(u8(tvb, 1), 0x7f), u8(tvb, 2), u8(tvb, 3)
    local path = {}

    add(tree, tvb, {{"relay.kind", 1, 1}, {"relay.ack", 1, 1}, {"relay.hosts", 2, 1}, {"relay.at", 3, 1},
        {"relay.priority", 4, 2}})
    for i = 0, math.min(hosts, 17) - 1 do
        tree:add_le(F["relay.rank"], tvb(6 + 2 * i, 2)):append_text(i == at and " (receiver of this hop)" or "")
        path[#path + 1] = u16(tvb, 6 + 2 * i)
    end
    add(tree, tvb, {{"relay.id", 40, 4}, {"relay.number", 44, 4}})
    if not relay_kind[what] then
        tree:add_proto_expert_info(E.unknown)
    end
    local text = "RELAY " .. name_of(relay_kind, what) .. " " .. table.concat(path, ">")
    if what == 2 and payload and payload:len() >= FRAME_HEADER then
        text = text .. ": " .. dissect_frame(payload:tvb(), pinfo, tree)
    elseif what == 4 then
        tree:add_proto_expert_info(E.refused)
    end
    return text
end

-- What follows the tag and the length, by type; offsets are those in the inline area.
local bodies = {
    [2] = {{"eager.released", 16, 2}, {"eager.released_units", 18, 2}},
    [3] = {{"slot", 24, 4}, {"renews", 28, 4}, {"total", 32, 8}, {"have", 40, 8}},
    [4] = {{"onesided.offset", 24, 8}, {"onesided.check", 32, 8}, {"onesided.region", 40, 4}},
    [7] = {{"ack.bytes", 24, 8}, {"ack.arrived", 32, 4}, {"ack.released", 36, 4}, {"ack.ahead", 40, 4},
        {"ack.released_bytes", 44, 4}},
    [10] = {{"rail", 24, 4}, {"incarnation", 28, 4}},
    [12] = {{"abort.reason", 24, 4}},
    [13] = {{"bye.others", 24, 4}, {"bye.p2p", 28, 4}},
    [15] = {{"relay_back.free", 24, 16}},
    [16] = {{"total", 24, 8}, {"call_root", 36, 4}, {"call_collective", 40, 1}, {"call_type", 41, 1},
            {"call_reduction", 42, 1}, {"call_by", 43, 1}},
    [17] = {{"slot", 24, 4}, {"lost", 28, 4}},
    [19] = {{"total", 24, 8}},
    [22] = {{"put_done.puts", 24, 24}},
    [23] = {{"onesided.check", 24, 8}, {"puts.count", 32, 4}},
    [18] = {{"onesided.offset", 24, 8}, {"onesided.check", 32, 8}, {"onesided.region", 40, 4}, {"onesided.operation", 44, 4}},
}
bodies[5] = bodies[4]
bodies[11] = bodies[10]
local tagged = {[2] = true, [3] = true, [4] = true, [5] = true, [16] = true, [18] = true, [19] = true, [22] = true,
                [23] = true}
local numbered = {[2] = true, [3] = true, [4] = true, [5] = true, [18] = true, [19] = true, [22] = true, [23] = true}
local is_problem = {[10] = true, [11] = true, [12] = true, [16] = true, [17] = true}

-- Of PUTS; the capture may have cut it.
local function add_puts(tree, tvb)
    local at = 0

    while at + 16 <= tvb:len() do
        local bytes = u32(tvb, at + 12)

        add(tree, tvb(at):tvb(), {{"onesided.offset", 0, 8}, {"onesided.region", 8, 4}})
        if bytes == 0 or at + 16 + bytes > tvb:len() then
            return
        end
        tree:add(F["payload"], tvb(at + 16, bytes))
        at = at + 16 + bytes
    end
end

local function add_slots(tree, tvb)
    local text = ""

    for at = 24, 44, 4 do
        if u32(tvb, at) ~= 0 then
            tree:add_le(F["slot"], tvb(at, 4))
            text = string.format("%s 0x%x", text, u32(tvb, at))
        end
    end
    return text
end

-- The inline area of a MESSAGE and its payload (a range or nil). Returns words for the list of packets.
local function dissect_message(tvb, payload, pinfo, tree)
    local kind = u8(tvb, 0)
    local t = tree:add(tvb(), "Message: " .. name_of(message_type, kind))
    local text = name_of(message_type, kind)

    t:add(F["message.type"], tvb(0, 1))
    if not message_type[kind] then
        t:add_proto_expert_info(E.unknown)
    end
    if kind == 1 then
        return payload and dissect_handshake(payload:tvb(), t) or text
    elseif kind == 14 then
        return dissect_relay(tvb, payload, pinfo, t)
    end
    if numbered[kind] then
        t:add_le(F["message.sequence"], tvb(4, 4))
    end
    if tagged[kind] then
        add(t, tvb, {{"message.check", 2, 2}, {"message.bytes", 20, 4}})
        text = string.format("%s %d bytes, %s", text, u32(tvb, 20), add_tag(t, tvb(8, 8):tvb()))
    end
    add(t, tvb, bodies[kind] or {})
    if kind == 2 and u32(tvb, 20) <= EAGER_INLINE then
        t:add(F["payload"], tvb(24, u32(tvb, 20)))
    elseif kind == 3 then
        t:add_le(F["message.rkeys"], tvb(16, 4))
        add_rkeys(t, u32(tvb, 16), payload)
        text = string.format("%s, slot 0x%x", text, u32(tvb, 24))
    elseif kind == 6 then
        text = text .. add_slots(t, tvb)
    elseif kind == 4 and u8(tvb, 1) == 1 and payload and payload:len() >= 32 then
        add(t, payload:tvb(), {{"notify.value", 0, 8}, {"notify.offset", 8, 8}, {"notify.region", 16, 4}, {"notify.operation", 20, 4},
                               {"notify.group", 24, 4}})
        text = string.format("%s, notifies %s", text, tostring(payload:tvb()(0, 8):le_uint64()))
    elseif kind == 23 and payload then
        add_puts(t, payload:tvb())
        text = string.format("%s, %d puts", text, u32(tvb, 32))
    elseif kind == 18 and payload and payload:len() == 16 then
        add(t, payload:tvb(), {{"onesided.value", 0, 8}, {"onesided.compare", 8, 8}})
        text = string.format("%s, %s", text, name_of(atomic_operation, u32(tvb, 44)))
    elseif kind == 12 and payload then
        t:add(F["words"], payload)
        text = text .. " " .. payload:string()
    elseif payload then
        t:add(F["payload"], payload)
    end
    if is_problem[kind] then
        t:add_proto_expert_info(E.refused, text)
    end
    return text
end

-- ---- frames ------------------------------------------------------------------------------------

-- tvb: a frame from its header on, perhaps cut by the capture.
dissect_frame = function(tvb, pinfo, tree)
    local kind, length = u8(tvb, 3), u32(tvb, 4)
    local t = tree:add(braid, tvb(), string.format("braid frame: %s, %d bytes", name_of(frame_kind, kind), length))
    local there = math.min(length, tvb:len() - FRAME_HEADER)
    local payload = there > 0 and tvb(FRAME_HEADER, there) or nil
    local text

    add(t, tvb, {{"frame.magic", 0, 2}, {"frame.version", 2, 1}, {"frame.kind", 3, 1}, {"frame.length", 4, 4}})
    if kind == 1 then
        return dissect_message(tvb(16, INLINE):tvb(), payload, pinfo, t)
    end
    add(t, tvb, {{"frame.slot", 8, 4}, {"frame.offset", 12, 4}, {"placed.ack", 16, 1}, {"placed.done", 16, 1}})
    if payload then
        t:add(F["payload"], payload)
    end
    return string.format("DATA %d bytes at %d of slot 0x%x", length, u32(tvb, 12), u32(tvb, 8))
end

-- ---- the store, verbs' hello, braid perf -------------------------------------------------------

local store_least = {[1] = 112, [2] = 32, [3] = 32, [4] = 32, [5] = 16, [6] = 16, [7] = 16, [9] = 4}

local function dissect_store(tvb, _, tree)
    local kind, bytes = u16(tvb, 6), u32(tvb, 8)
    local t = tree:add(braid, tvb(), "braid store: " .. name_of(store_kind, kind))
    local text = "store " .. name_of(store_kind, kind)

    add(t, tvb, {{"store.version", 4, 2}, {"store.kind", 6, 2}, {"store.bytes", 8, 4}})
    if not store_kind[kind] then
        t:add_proto_expert_info(E.unknown)
        return text
    elseif not has(t, tvb, 16 + (store_least[kind] or 0)) then
        return text
    end
    if kind == 1 then
        add(t, tvb, {{"nonce", 16, 32}, {"store.rank", 48, 4}, {"store.size", 52, 4}, {"store.pid", 56, 4}})
        t:add(F["store.host"], tvb(64, 64), tvb(64, 64):stringz())
        return string.format("%s rank %d of %d", text, u32(tvb, 48), u32(tvb, 52))
    elseif kind == 2 then
        add(t, tvb, {{"nonce", 16, 32}})
    elseif kind <= 4 then
        add(t, tvb, {{"proof", 16, 32}})
    elseif kind <= 7 then
        local key = u32(tvb, 20)
        add(t, tvb, {{"store.timeout", 16, 4}, {"store.key_bytes", 20, 4}, {"store.value_bytes", 24, 4}})
        if has(t, tvb, 32 + key) and key > 0 then
            t:add(F["store.key"], tvb(32, key))
            text = text .. " " .. tvb(32, key):string()
            if tvb:len() > 32 + key then
                t:add(F["store.value"], tvb(32 + key))
            end
        end
    elseif kind == 8 and bytes > 0 and tvb:len() > 16 then
        t:add(F["store.value"], tvb(16))
    elseif kind == 9 then
        add(t, tvb, {{"store.errno", 16, 4}})
        if tvb:len() > 20 then
            t:add(F["words"], tvb(20))
            text = text .. " " .. tvb(20):string()
        end
        t:add_proto_expert_info(E.refused, text)
    end
    return text
end

local function dissect_verbs(tvb, _, tree)
    local t = tree:add(braid, tvb(), "braid verbs: connection")

    if tvb:len() < 72 then
        t:add(F["verbs.go"], tvb(0, 1))
        return "verbs: the queue pair can receive"
    end
    add(t, tvb, {{"verbs.version", 4, 1}, {"verbs.mtu", 5, 1}, {"verbs.lid", 6, 2}, {"verbs.qp", 8, 4},
        {"verbs.psn", 12, 4}, {"verbs.message_bytes", 16, 4}, {"verbs.gids", 20, 51}})
    return string.format("verbs hello, queue pair 0x%x", u32(tvb, 8))
end

local function dissect_perf(tvb, _, tree)
    local t = tree:add(braid, tvb(), "braid perf: parameters")

    add(t, tvb, {{"perf.bytes", 0, 4}})
    if tvb:len() > 4 then
        t:add(F["perf.text"], tvb(4))
    end
    return "perf parameters"
end

-- ---- streams -----------------------------------------------------------------------------------

local function is_frame(text)
    return text:sub(1, 3) == "rb\1" and (text:byte(4) == 1 or text:byte(4) == 2)
end

-- Where the next bytes that look like a frame begin, in a range that does not begin with one.
local function next_frame(range)
    local text, at = range:raw(), 2

    while true do
        at = text:find("rb\1", at, true)
        if not at then
            return #text
        elseif is_frame(text:sub(at, at + 3)) and (#text < at + 7 or text:byte(at + 7) <= 1) then
            return at - 1
        end
        at = at + 1
    end
end

-- What a stream can be: bytes of a header, length of what begins at a header, and how to show it.
local kinds = {
    frames = {
        header = FRAME_HEADER,
        length = function(tvb, at)
            local n = u32(tvb, at + 4)
            if is_frame(tvb(at, 4):raw()) and n <= MAX_PAYLOAD then
                return FRAME_HEADER + n
            end
        end,
        show = dissect_frame,
    },
    store = {
        header = 16,
        length = function(tvb, at)
            return tvb(at, 4):raw() == "RBST" and 16 + u32(tvb, at + 8) or nil
        end,
        show = dissect_store,
    },
    verbs = {
        header = 1,
        length = function(tvb, at)
            return tvb(at, 1):raw() == "b" and 72 or 1
        end,
        show = dissect_verbs,
    },
    perf = {
        header = 4,
        length = function(tvb, at)
            return 4 + u32(tvb, at)
        end,
        show = dissect_perf,
    },
}
local streams = {} -- kinds, by the number of the TCP stream
local stream_number = Field.new("tcp.stream")

local function guess(text)
    if is_frame(text) and (#text < 8 or text:byte(8) <= 1) then
        return kinds.frames
    elseif text:sub(1, 4) == "RBST" then
        return kinds.store
    elseif text:sub(1, 4) == "brvb" and #text == 72 then
        return kinds.verbs
    elseif text:sub(5, 14) == "braid-perf" then
        return kinds.perf
    end
end

local function show_skipped(range, tree)
    local t = tree:add(braid, range, "braid: the middle of a frame")

    t:add(F["skipped"], range)
    t:add_proto_expert_info(E.skipped)
    return "middle of a frame"
end

-- Every whole frame of the segment; asks TCP for more bytes when the last one is not whole.
function braid.dissector(tvb, pinfo, tree)
    local number = stream_number()
    local kind = number and streams[number.value] or guess(tvb:raw(0, math.min(tvb:len(), 72))) or kinds.frames
    local at, texts = 0, {}

    pinfo.cols.protocol = "braid"
    while at < tvb:len() do
        local rest, bytes = tvb:len() - at, nil
        if rest >= kind.header then
            bytes = kind.length(tvb, at)
            if not bytes then
                bytes = next_frame(tvb(at))
                texts[#texts + 1] = show_skipped(tvb(at, bytes), tree)
                at = at + bytes
                goto continue
            end
        elseif kind == kinds.frames and not is_frame(tvb(at):raw() .. ("rb\1\1"):sub(math.min(rest, 4) + 1)) then
            texts[#texts + 1] = show_skipped(tvb(at), tree)
            break
        end
        if (not bytes or bytes > rest) and pinfo.can_desegment > 0 then
            pinfo.desegment_offset = at
            pinfo.desegment_len = bytes and bytes - rest or DESEGMENT_ONE_MORE_SEGMENT
            break
        elseif not bytes then
            texts[#texts + 1] = show_skipped(tvb(at), tree)
            break
        end
        texts[#texts + 1] = kind.show(tvb(at, math.min(bytes, rest)):tvb(), pinfo, tree)
        at = at + bytes
        ::continue::
    end
    if #texts > 0 then -- TCP calls twice for a segment that ends one frame and begins others
        pinfo.cols.info = (pinfo.private.braid and "; " or "") .. table.concat(texts, "; ")
        pinfo.cols.info:fence()
        pinfo.private.braid = "1"
    end
    return tvb:len()
end

local function find_stream(tvb, pinfo, tree)
    local kind = tvb:len() >= 4 and guess(tvb:raw(0, math.min(tvb:len(), 72)))
    local number = stream_number()

    if not kind or not number then
        return false
    end
    streams[number.value] = kind
    pinfo.conversation = braid
    braid.dissector(tvb, pinfo, tree)
    return true
end

-- ---- datagrams ---------------------------------------------------------------------------------

local crc_table = {}
for i = 0, 255 do
    local c = i
    for _ = 1, 8 do
        c = bit.band(c, 1) == 1 and bit.bxor(bit.rshift(c, 1), 0x82f63b78) or bit.rshift(c, 1)
    end
    crc_table[i] = c
end

local function crc32c(text)
    local crc = 0xffffffff

    for i = 1, #text do
        crc = bit.bxor(bit.rshift(crc, 8), crc_table[bit.band(bit.bxor(crc, text:byte(i)), 0xff)])
    end
    return bit.band(bit.bnot(crc), 0xffffffff) % 0x100000000
end

-- `n` bits of a number, from bit `first` on.
local function bits(number, first, n)
    return math.floor(number / 2 ^ first) % 2 ^ n
end

local function add_checksum(tvb, tree)
    local text, item, status = tvb:raw(), tree:add_le(F["datagram.checksum"], tvb(4, 4)), 2

    if braid.prefs.checksum and tvb:len() == tvb:reported_len() then
        if u8(tvb, 3) == 5 and #text >= DATA_HEADER and bits(u32(tvb, 36), 28, 1) == 1 then
            text = text:sub(1, DATA_HEADER + (bits(u32(tvb, 36), 17, 6) == 0 and INLINE or 0))
        end
        status = crc32c(text:sub(1, 4) .. "\0\0\0\0" .. text:sub(9)) == u32(tvb, 4) and 1 or 0
    end
    tree:add(F["datagram.checksum.status"], tvb(4, 4), status)
    if status == 0 then
        item:add_proto_expert_info(E.checksum)
    end
end

local links = {} -- numbers of links (8 bytes) that datagrams have begun with
local seen = {} -- where each part of a frame was sent first: its packet's number, and that of the captured packet

local function add_part(tvb, pinfo, tree)
    local word = u32(tvb, 36)
    local frame_kind_number, part, path = bits(word, 23, 2), bits(word, 17, 6), bits(word, 25, 3)
    local content = tvb:len() > DATA_HEADER and tvb(DATA_HEADER) or nil
    local key = tvb(8, 8):raw() .. tvb(20, 4):raw() .. string.char(part)
    local number = u32(tvb, 16)
    local text

    add(tree, tvb, {{"datagram.number", 16, 4}, {"datagram.frame", 20, 4}, {"datagram.order", 24, 4},
        {"datagram.slot", 28, 4}, {"datagram.offset", 32, 4}, {"datagram.length", 36, 4}, {"datagram.part", 36, 4},
        {"datagram.frame_kind", 36, 4}, {"datagram.path", 36, 4}, {"datagram.header_only", 36, 4},
        {"datagram.asks", 36, 4}})
    if not pinfo.visited and not seen[key] then
        seen[key] = {number = number .. "/" .. path, at = pinfo.number}
    end
    if frame_kind_number == 2 then
        text = string.format("DATA %d bytes at %d of slot 0x%x, part %d", bits(word, 0, 17), u32(tvb, 32), u32(tvb, 28), part)
    else
        text = string.format("MESSAGE part %d", part)
    end
    if content and part == 0 and content:len() >= INLINE then
        local payload = content:len() > INLINE and content(INLINE) or nil
        if frame_kind_number == 1 then
            text = dissect_message(content(0, INLINE):tvb(), payload, pinfo, tree)
        else
            add(tree, content:tvb(), {{"placed.ack", 0, 1}, {"placed.done", 0, 1}})
            if payload then
                tree:add(F["payload"], payload)
            end
        end
    elseif content then
        tree:add(F["payload"], content)
    end
    if seen[key] and seen[key].number ~= number .. "/" .. path then
        tree:add(F["datagram.first"], seen[key].at):set_generated()
        tree:add_proto_expert_info(E.again)
        text = text .. " (again)"
    end
    return string.format("%s %d:%d %s", dgram_kind[5], path, number, text)
end

local function add_ranges(tvb, tree)
    local n = u8(tvb, 45)

    add(tree, tvb, {{"ack.top", 16, 8}, {"ack.latest", 24, 8}, {"ack.delay", 32, 4}, {"ack.marked", 36, 4},
        {"ack.messages", 40, 4}, {"ack.path", 44, 1}, {"ack.ranges", 45, 1}})
    if has(tree, tvb, 48 + 4 * n) then
        local missing = 0
        for i = 0, n - 1 do
            add(tree, tvb, {{"ack.gap", 48 + 4 * i, 2}, {"ack.run", 50 + 4 * i, 2}})
            missing = missing + u16(tvb, 48 + 4 * i)
        end
        return string.format("ACK up to %s, %d missing", tostring(tvb(16, 8):le_uint64()), missing)
    end
    return "ACK"
end

-- One packet.
local function dissect_packet(tvb, pinfo, tree)
    local kind, version = u8(tvb, 3), u8(tvb, 2)
    local t = tree:add(braid, tvb(), "braid datagram: " .. name_of(dgram_kind, kind))

    add(t, tvb, {{"datagram.version", 2, 1}, {"datagram.kind", 3, 1}})
    add_checksum(tvb, t)
    add(t, tvb, {{"datagram.link", 8, 8}})
    if version ~= 3 then
        add(t, tvb, {{"datagram.from", 16, 8}})
        return string.format("%s of version %d", name_of(dgram_kind, kind), version)
    elseif not dgram_kind[kind] then
        t:add_proto_expert_info(E.unknown)
    elseif kind <= 4 or kind == 8 then
        if has(t, tvb, 32) then
            add(t, tvb, {{"datagram.from", 16, 8}, {"datagram.size", 24, 4}, {"datagram.paths", 28, 1}})
            return string.format("%s size %d", dgram_kind[kind], u32(tvb, 24))
        end
    elseif kind == 7 then
        if has(t, tvb, 48) then
            return add_ranges(tvb, t)
        end
    elseif has(t, tvb, DATA_HEADER) then
        if kind == 5 then
            return add_part(tvb, pinfo, t)
        end
        add(t, tvb, {{"datagram.number", 16, 4}, {"datagram.path", 36, 4}})
    end
    return name_of(dgram_kind, kind)
end

-- Bytes of the packet that begins at `start` (from 1) in a datagram.
local function packet_bytes(text, start)
    local at = start + 32

    while true do
        at = text:find("db\3", at, true)
        if not at then
            return #text - start + 1
        elseif links[text:sub(at + 8, at + 15)] then
            return at - start
        end
        at = at + 1
    end
end

-- An OPEN or a CLOSE of another version: their first 24 bytes are those of ours.
local function is_other_version(text)
    local kind = text:byte(4)

    return kind == 1 and text:sub(9, 16) == string.rep("\0", 8) or kind == 8 and #text == 32
end

local function find_datagram(tvb, pinfo, tree)
    local text, at, texts = tvb:raw(), 0, {}

    if #text < 32 or text:sub(1, 2) ~= "db" or text:byte(4) < 1 or text:byte(4) > 8 then
        return false
    elseif text:byte(3) ~= 3 then
        if is_other_version(text) then
            pinfo.cols.protocol = "braid"
            pinfo.cols.info = dissect_packet(tvb, pinfo, tree)
        end
        return is_other_version(text)
    end
    links[text:sub(9, 16)] = true
    pinfo.cols.protocol = "braid"
    while at < #text do
        local bytes = packet_bytes(text, at + 1)
        texts[#texts + 1] = dissect_packet(tvb(at, bytes):tvb(), pinfo, tree)
        at = at + bytes
    end
    pinfo.cols.info = table.concat(texts, "; ")
    return true
end

local function find_beacon(tvb, pinfo, tree)
    if tvb:len() ~= 64 or tvb(0, 4):string() ~= "RBBC" then
        return false
    end
    local t = tree:add(braid, tvb(), "braid beacon")
    add(t, tvb, {{"beacon.version", 4, 2}, {"beacon.nic", 6, 2}, {"beacon.rank", 8, 4}, {"nonce", 16, 16},
        {"proof", 32, 32}})
    pinfo.cols.protocol = "braid"
    pinfo.cols.info = string.format("beacon of rank %d, NIC %d", u32(tvb, 8), u16(tvb, 6))
    return true
end

function braid.init()
    streams, links, seen = {}, {}, {}
end

braid:register_heuristic("tcp", find_stream)
braid:register_heuristic("udp", function(tvb, pinfo, tree)
    return find_datagram(tvb, pinfo, tree) or find_beacon(tvb, pinfo, tree)
end)
DissectorTable.get("tcp.port"):add_for_decode_as(braid)
