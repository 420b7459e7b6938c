#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The Wireshark dissector: its names are those of the headers; it reads the vectors of doc/wire.md; and in a capture of three jobs (TCP
# with two rails, UDP, a BCube with relaying) it finds every byte of the streams, every packet of the datagrams, and the bytes of every
# transfer that was asked for.
set -uo pipefail
lua=$BRAID_SOURCE/tools/wireshark/braid.lua
braid=$BRAID_BUILD/braid
here=$BRAID_SOURCE/tests/lint/test_wireshark.sh

# In a network of its own (see below): captures what the jobs say.
if [[ ${1:-} == capture ]]; then
    work=$2
    ip link set lo up mtu 1500 || exit 1
    tcpdump -Z root -i lo -n -U -B 65536 -w "$work/jobs.pcap" 2> "$work/tcpdump" &
    tcpdump=$!
    for _ in {1..400}; do
        grep -q 'listening on' "$work/tcpdump" && break
        sleep 0.05
    done
    rc=0
    timeout 120 "$braid" run -n 2 --rails 2 --backend tcp -- "$braid" allreduce -b 256 -e 256K -f 1024 -n 2 -w 1 &&
        timeout 120 "$braid" run -n 2 --backend udp -- "$braid" allreduce -b 64 -e 256K -f 4096 -n 2 -w 1 &&
        BRAID_TOPOLOGY=bcube:2,2 timeout 120 "$braid" run -n 4 --backend tcp -- "$braid" sendrecv -b 64K -e 64K -n 1 -w 1 || rc=1
    echo end-of-capture > /dev/udp/127.0.0.1/9 # packets are written in their order: with this one all are there
    for _ in {1..400}; do
        grep -qa end-of-capture "$work/jobs.pcap" && break
        sleep 0.05
    done
    kill "$tcpdump"
    wait "$tcpdump"
    exit $rc
fi

skip() {
    echo "skipped: $*"
    exit 77
}

failures=0
fail() {
    echo "FAILED: $*" >&2
    failures=$((failures + 1))
}

# -- names: every constant of the wire's enums, with its number
names() { # HEADER ENUM PREFIX TABLE
    local number name
    while read -r number name; do
        [[ -n $name ]] || fail "no enum $2 in $1"
        awk -v table="local $4 = {" 'index($0, table) { on = 1 } on { text = text $0 } on && /}/ { print text; exit }' "$lua" |
            grep -qF "[$number] = \"$name\"" || fail "$name = $number of $1 is not in the dissector's $4"
    done < <(awk -v enum="enum $2 {" -v prefix="$3" '
        index($0, enum) { on = 1; n = 0; next }
        on && /^};/ { exit }
        on && match($0, prefix "[A-Z0-9_]+") { name = substr($0, RSTART + length(prefix), RLENGTH - length(prefix)) }
        on && name && match($0, /= *$/) { next }
        on && name && match($0, /[0-9]+,/) { n = substr($0, RSTART) + 0 }
        on && name { print n, name; n++; name = "" }' "$BRAID_SOURCE/$1")
}
names protocol/message.h br_message_type BR_MESSAGE_ message_type
names protocol/message.h br_abort_reason BR_ABORT_ abort_reason
names protocol/message.h br_relay_kind BR_RELAY_ relay_kind
names protocol/message_handshake.h br_handshake_kind BR_HANDSHAKE_ handshake_kind
names protocol/message_handshake.h br_handshake_reason BR_REFUSED_ handshake_reason
names protocol/message_store.h br_store_kind BR_STORE_ store_kind
names transport/datagram/packet.h br_dgram_kind BR_DGRAM_ dgram_kind
names transport/frame.h br_frame_kind BR_FRAME_ frame_kind
[[ $failures -eq 0 ]] || exit 1

for tool in tshark text2pcap editcap tcpdump; do
    command -v "$tool" > /dev/null || skip "no $tool: apt-get install tshark tcpdump"
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export HOME=$work # nobody's preferences

# shark FILE ARGUMENT...
shark() {
    timeout 120 tshark -X "lua_script:$lua" -o tcp.try_heuristic_first:TRUE -o udp.try_heuristic_first:TRUE \
        -o tcp.reassemble_out_of_order:TRUE -o braid.checksum:TRUE -r "$@" 2>> "$work/err"
}

# -- the vectors of the document: a stream of frames, one of the store, datagrams
vector() { # BEGINNING of its line
    awk -v name="    $1" 'index($0, name) == 1 { on = 1; next } on && /^    [0-9a-f ]+$/ { printf "%s", $0; next } on { exit }
        END { if (name == "    open:") printf "%02096d", 0 }' "$BRAID_SOURCE/doc/wire.md" | tr -d ' '
}
vectors() { # PROTOCOL, then a vector (or two+that follow each other) and what the list of packets says, by turns
    local protocol=$1
    shift
    while [[ $# -gt 0 ]]; do
        echo "$(vector "${1%+*}")$([[ $1 != *+* ]] || vector "${1#*+}")" | sed 's/../ &/g; s/^/0000/' >> "$work/hex"
        echo "$2" >> "$work/expected"
        shift 2
    done
    text2pcap -q "$protocol" 40001,40002 "$work/hex" "$work/vectors.pcap" 2>> "$work/err" || fail "text2pcap refuses vectors"
    shark "$work/vectors.pcap" -T fields -e _ws.col.Info > "$work/said"
    diff "$work/expected" "$work/said" || fail "vectors ($protocol)"
    rm -f "$work/hex" "$work/expected"
}
vectors -T eager-8: 'EAGER 8 bytes, collective 3/7 fragment 1 message 2' \
    ready: 'READY 1048576 bytes, point to point 1023/1 tag 9, slot 0x10003' \
    waiting: 'WAITING 16777216 bytes, point to point 1023/1 tag 9' \
    announce: 'ANNOUNCE 16777216 bytes, point to point 1023/1 tag 9' \
    left: 'LEFT' \
    'ack: 65536' 'ACK' \
    ready-rkeys: 'READY 1048576 bytes, collective 1/2 fragment 3 message 4, slot 0x10003' \
    renew: 'RENEW' \
    ready-renewed: 'READY 1048576 bytes, collective 1/2 fragment 3 message 4, slot 0x20003' \
    put: 'PUT 5 bytes, one-sided REQUEST' \
    put-notify: 'PUT 5 bytes, one-sided REQUEST, notifies 99' \
    atomic: 'ATOMIC 8 bytes, one-sided REQUEST, SWAP' \
    answer: 'EAGER 16 bytes, one-sided STATUS' \
    puts: 'PUTS 39 bytes, one-sided REQUEST, 2 puts' \
    put-done: 'PUT_DONE 0 bytes, one-sided STATUS' \
    relay: 'RELAY FRAME 0>1>4>5: DATA 4 bytes at 8192 of slot 0x10003' \
    relay-unreachable: 'RELAY UNREACHABLE 1>4>5' \
    relay-back: 'RELAY_CREDIT'
vectors -T store-hello: 'store HELLO rank 3 of 4' store-challenge: 'store CHALLENGE' store-proof: 'store PROOF' \
    store-welcome: 'store WELCOME' store-put: 'store PUT address/3' store-get: 'store GET address/0' \
    store-gather: 'store GATHER start' store-value: 'store VALUE' store-error: 'store ERROR too bad' store-bye: 'store BYE'
vectors -u open: 'OPEN size 1080' data: 'DATA 1:258 DATA 40 bytes at 65536 of slot 0x70002, part 0' \
    'data:+ack: on path' 'DATA 1:258 DATA 40 bytes at 65536 of slot 0x70002, part 0; ACK up to 100, 2 missing' close: 'CLOSE size 0' \
    close-4: 'CLOSE of version 4' beacon: 'beacon of rank 3, NIC 1'

# -- real jobs
as_root=()
[[ $(id -u) -eq 0 ]] || as_root=(-r)
unshare "${as_root[@]}" -n true 2> /dev/null || skip "no network of our own here (unshare -n): names and vectors are right"
if ! unshare "${as_root[@]}" -n bash "$here" capture "$work" > "$work/jobs" 2>&1; then
    cat "$work/jobs" "$work/tcpdump" >&2
    fail "a job, or the capture of it"
    exit 1
fi
# Streams: the bytes of all frames are those of the stream where nothing is relayed (a frame in a frame). Transfers: DATA has as many
# bytes as READY asked for. Both only where TCP's segments came once and in order: on a busy machine some do not, and how they are put
# together is TCP's affair. Datagrams: all checksums are right.
fields=(tcp.stream tcp.srcport tcp.seq tcp.len tcp.analysis.retransmission tcp.analysis.out_of_order tcp.analysis.lost_segment
    braid.frame.length braid.store.bytes braid.relay.kind braid.datagram.link braid.datagram.checksum.status _ws.col.Info
    udp.port braid.expert.unknown braid.expert.short braid.expert.checksum braid.expert.skipped _ws.lua.error _ws.malformed _ws.short)
shark "$work/jobs.pcap" -T fields -E separator='|' "${fields[@]/#/-e}" > "$work/fields"
awk -F'|' '
    function sum(list, header,    n, i, part, total) {
        n = split(list, part, ",")
        for (i = 1; i <= n; i++)
            total += part[i] + header
        return total
    }
    function transfers(net, key, text,    word) { # each once, also when it is seen again
        while (match(text, /(READY|DATA) [0-9]+ bytes[^;]* slot 0x[0-9a-f]+/)) {
            split(substr(text, RSTART, RLENGTH), word, " ")
            if (!seen[key, substr(text, RSTART, RLENGTH)]++)
                bytes[net, word[1]] += word[2]
            text = substr(text, RSTART + RLENGTH)
        }
    }
    $15 $16 $17 $18 $19 $20 $21 != "" || ($14 != "" && $11 == "" && $14 !~ /,9$/) {
        if ($1 == "" || !unread[$1])
            unread[$1] = "not read: " $0
    }
    $1 != "" {
        side = $1 "|" $2
        end = $3 + $4 - 1
        if ($4 > 0 && end > length_of[side])
            length_of[side] = end
        relays[$1] += $10 != ""
        unsure[$1] += $4 > 0 && $5 $6 $7 != ""
        found[side] += sum($8, 64) + sum($9, 16)
        if ($13 ~ /handshake HELLO rank [0-9]+ of 2 /)
            two_ranks[$1] = 1
        if (two_ranks[$1])
            transfers("TCP", side, $13)
        hellos += $13 ~ /store HELLO/
        byes += $13 ~ /store BYE/
        leaving += $13 ~ /(^|[;:] )BYE/
        handshakes += $13 ~ /^handshake (HELLO|CHALLENGE|PROOF|WELCOME)/
        relayed += $13 ~ /RELAY FRAME [0-9]>[0-9]>[0-9]: handshake/
    }
    $11 != "" {
        split($11, link, ",")
        transfers("UDP", link[1], $13)
        n = split($12, status, ",")
        for (i = 1; i <= n; i++)
            good += status[i] == 1
        packets += split($11, link, ",")
    }
    function expect(what, is, should) {
        if (is != should) {
            print what ": " is + 0 " instead of " should + 0
            failed = 1
        }
    }
    END {
        for (side in found) {
            split(side, word, "|")
            if (unsure[word[1]])
                unsure_streams++
            if (unsure[word[1]] && two_ranks[word[1]])
                unsure_transfers++
            if (unsure[word[1]] || relays[word[1]] || !length_of[side])
                continue
            expect("bytes of frames of stream|port " side, found[side], length_of[side])
            sure++
        }
        for (stream in unread)
            if (!unsure[stream]) {
                print unread[stream]
                failed = 1
            }
        expect("streams to be sure of", sure >= 4, 1)
        if (!unsure_transfers)
            expect("TCP: bytes placed", bytes["TCP", "DATA"], bytes["TCP", "READY"])
        expect("UDP: bytes placed", bytes["UDP", "DATA"], bytes["UDP", "READY"])
        expect("TCP: an all-reduce of 256 KiB and more", bytes["TCP", "READY"] >= 524288, 1)
        expect("UDP: an all-reduce of 256 KiB and more", bytes["UDP", "READY"] >= 524288, 1)
        expect("ranks that join the store", hellos, 8)
        expect("ranks that leave the store", byes, 8)
        expect("messages of handshakes", handshakes >= 4 * (2 + 4), 1)
        expect("relayed messages of handshakes", relayed > 0, 1)
        expect("datagrams with a right checksum", good, packets)
        expect("more than a few datagrams", packets > 100, 1)
        print unsure_streams ? 0 : leaving + 0 > byes_file
        exit failed
    }' byes_file="$work/byes" "$work/fields" >&2 || fail "what the dissector shows is not what was sent"

# -- a capture that begins in the middle: the dissector finds the frames again
editcap -r "$work/jobs.pcap" "$work/late.pcap" 150-100000 2>> "$work/err"
late=$(shark "$work/late.pcap" -Y 'tcp and braid.message.type == 13' -T fields -e _ws.col.Info | wc -l)
byes=$(< "$work/byes") # 0: not known
[[ $late -gt 0 && ($late -eq $byes || $byes -eq 0) ]] || fail "$late segments with BYE in a capture that begins late, $byes in all of it"
! grep -i 'lua' "$work/err" >&2 || fail "the script has errors"
[[ $failures -eq 0 ]]
