#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# `braid plan --model`: the table, the pictures, and what it says to nonsense.
braid=$BRAID_BUILD/braid
models=$BRAID_SOURCE/data/models
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# shellcheck source=tests/system/plan.sh
. "$BRAID_SOURCE/tests/system/plan.sh"

# P3's three layers: forward 1 unit, backward 1, all-reduce 2; a unit is a millisecond.
cat >"$dir/three.csv" <<END
# Three layers <&"
layer,name,kind,parameters,forward_multiply_adds
1,<a>,Linear,250,0
2,"b",Linear,250,0
3,c,Linear,250,0
END
printf 'layer,forward_us,backward_us\n1,1000,1000\n2,1000,1000\n3,1000,1000\n' >"$dir/times.csv"
out=$("$braid" plan --model "$dir/three.csv" --times "$dir/times.csv" -n 4 --cost 0,2000 --slice 500 --overtake 0 --layers \
    --svg "$dir/t.svg" --trace "$dir/t.json" --json "$dir/p.json") || fail "three layers: $out"
grep -Eq '^  layerwise +3 +ready +10\.000 +4\.000 +2\.40 +60\.0 %' <<<"$out" || fail "layerwise: $out"
grep -Eq '^\* p3 +3 +urgent +8\.000 +2\.000 +3\.00 +75\.0 %' <<<"$out" || fail "p3: $out"
[ "$(grep -c '|.*b.*f.*|$' <<<"$out")" = 3 ] || fail "no bars: $out"
[ "$(grep -cE '^<svg|^</svg>' "$dir/t.svg")" = 2 ] || fail "no drawing"
grep -q 'Three layers &lt;&amp;&quot;' "$dir/t.svg" || fail "the title is not escaped"
grep -qF '"dur":2000' "$dir/t.json" || fail "no trace"
grep -q '"policy":.*"auto"' "$dir/p.json" || fail "no JSON"

# Real tables, by a law, by the cost model of a topology, and with one policy.
for model in "$models"/*.csv; do
    "$braid" plan --model "$model" --topology bcube:3,2 | grep -q '^\*' || fail "$model"
done
"$braid" plan --model "$models/resnet50.csv" -n 8 --links ring:45.26,0.8,0 | grep -q 'a 633.6 us, b 1.4 ns/B (of ring on 8 ranks)' || fail "law"
out=$("$braid" plan --model "$models/lenet5.csv" -n 8 --policy mgwfbp --algorithm ring) || fail "one policy"
[ "$(grep -vc '^#' <<<"$out")" = 1 ] || fail "more than one policy: $out"
"$braid" plan --model "$models/lenet5.csv" -n 1 | grep -q '1.00 *100.0 %' || fail "one rank"

# The ratios of the MG-WFBP paper at 64 hosts, which doc/training.md explains: MG-WFBP against WFBP and SyncEASGD, 5 % aside.
awk -F, '/^[0-9]/ && $3 == "BatchNorm2d" {print ++n "," $2 ",weight," $4 / 2 "," $5; print ++n "," $2 ",bias," $4 / 2 ",0"; next}
    /^[0-9]/ {$1 = ++n} 1' OFS=, "$models/resnet50.csv" >"$dir/tensors.csv"
paper() { # FILE BATCH WFBP SYNCEASGD
    out=$("$braid" plan --model "$1" -n 64 --speed 440 --batch "$2" --links ring:45.26,2.16,0) || fail "$1: $out"
    awk -v wfbp="$3" -v sync="$4" '{sub(/^[* ]*/, ""); ms[$1] = $4}
        function near(a, b) {return a > b * 0.95 && a < b * 1.05}
        END {exit !(near(ms["layerwise"] / ms["mgwfbp"], wfbp) && near(ms["single"] / ms["mgwfbp"], sync))}' <<<"$out" || fail "$1: other ratios than the paper has: $out"
}
paper "$dir/tensors.csv" 32 1.75 1.45
paper "$models/googlenet.csv" 64 1.78 1.35

# In virtual time: a unit of computation is 1 ms, an all-reduce of two ranks 2 ms. By p3 an iteration would take 8 ms if what is urgent overtook at once.
sed -i s/,250,/,62500,/ "$dir/three.csv"
out=$("$braid" sim --model "$dir/three.csv" --times "$dir/times.csv" -n 2 --gbit 1 --latency 0.1 --layers --svg "$dir/s.svg" \
    --trace "$dir/s.json" --json "$dir/sp.json") || fail "sim: $out"
grep -Eq '^  layerwise +3 +ready +(9\.9|10\.[01])' <<<"$out" || fail "sim layerwise: $out"
grep -Eq '^[ *] p3 +3 +urgent +8\.[5-9]' <<<"$out" || fail "sim p3: $out"
[ "$(grep -cE '^<svg|^</svg>' "$dir/s.svg")" = 2 ] || fail "no drawing of the simulation"
# The same without a simulation: what is urgent waits for two windows of 64 KiB, 0.5 ms each. With two NICs each carries half as fast.
planned() { "$braid" plan --model "$dir/three.csv" --times "$dir/times.csv" -n 2 --policy p3 "$@" || fail "plan $*"; }
out=$(planned --cost 0,8)
grep -q '^# an urgent all-reduce amid others takes 1049 us longer$' <<<"$out" || fail "windows: $out"
grep -Eq '^\* p3 +3 +urgent +9\.[56]' <<<"$out" || fail "windows, p3: $out"
planned --cost 0,8 --rails 2 | grep -q ' takes 2097 us longer$' || fail "windows of two NICs"
planned --cost 0,8 --overtake 7 | grep -q ' takes 7 us longer$' || fail "--overtake"
"$braid" plan --model "$dir/three.csv" --topology bcube:3,2 --cost 0,8 | grep -q ' takes 4719 us longer$' || fail "windows on a BCube"
planned -n 1 --cost 0,8 | grep -q ' takes 0 us longer$' || fail "windows of one rank"
grep -q simulated_iteration_s "$dir/sp.json" || fail "no JSON of the simulation"
# Gradients that take 20 ms, ready every 10: by p3 layer 3 is overtaken, and its all-reduce is drawn in two parts.
sed s/,62500,/,2500000,/ "$dir/three.csv" >"$dir/large.csv"
sed s/000/0000/g "$dir/times.csv" >"$dir/slow.csv"
"$braid" sim --model "$dir/large.csv" --times "$dir/slow.csv" -n 2 --gbit 4 --latency 5 --policy p3 --layers >"$dir/out" || fail "sim p3"
grep -Eq '^ +3  c .*\|b+=+ +=+ *f+ *\|$' "$dir/out" || fail "layer 3 is not drawn in two parts: $(cat "$dir/out")"

# BRAID_TRACE in virtual time: of the only policy, or of the best one.
traced() { # PATTERN ARGUMENT...
    BRAID_TRACE=$1 "$braid" sim --model "$dir/large.csv" --times "$dir/slow.csv" -n 2 --gbit 4 --latency 5 "${@:2}" 2>&1
}
traced "$dir/f.json" --policy p3 >"$dir/out" || fail "BRAID_TRACE: $(cat "$dir/out")"
traced "$dir/g.%r.json" --policy p3 >/dev/null || fail "BRAID_TRACE with %r"
cmp "$dir/f.0.json" "$dir/g.0.json" && cmp "$dir/f.1.json" "$dir/g.1.json" || fail "the same run, other timelines"
traced "$dir/b.json" >"$dir/out.all" && grep -q '^\* p3' "$dir/out.all" || fail "p3 is not the best: $(cat "$dir/out.all")"
cmp "$dir/f.0.json" "$dir/b.0.json" || fail "the best policy's timeline is not p3's"
python3 - "$dir" <<'END' || fail "the timelines of P3's three layers"
import json, sys
table = [line.split() for line in open(sys.argv[1] + "/out") if line.startswith("* p3")]
for rank in 0, 1:
    events = json.load(open(f"{sys.argv[1]}/f.{rank}.json"))
    assert {e["pid"] for e in events} == {rank} and "events lost" not in {e["name"] for e in events}
    assert {f"rank {rank}", f"from rank {1 - rank}, rail 0"} <= {e["args"]["name"] for e in events if e["ph"] == "M"}
    # 3 iterations of layers 3, 2, 1; the last one has the orders 6, 7, 8.
    begins = {e["args"]["order"]: e["ts"] for e in events if e.get("cat") == "operation"}
    assert sorted(begins) == list(range(9)), begins
    assert abs((begins[6] - begins[3]) / 1e3 - float(table[0][4])) < 0.01, (begins, table)
    frames = [e["args"]["order"] for e in sorted(events, key=lambda e: e.get("ts", 0)) if e["name"] == "send slice"]
    assert sum(e["args"]["bytes"] for e in events if e["name"] == "send slice") >= 9 * 10e6
    assert 8 in frames[frames.index(6):len(frames) - 1 - frames[::-1].index(6)], "layer 3 is not overtaken by layer 1"
END
ln -s /dev/full "$dir/full.1.json"
out=$(traced "$dir/full.json" --policy p3) && fail "no error on a full disk"
grep -q '^\*' <<<"$out" && grep -q 'BRAID_TRACE.*/dev/full: No space left' <<<"$out" || fail "a full disk: $out"
refused() { # WORDS PATTERN: before anything is simulated
    out=$(traced "$2" --policy p3) && fail "BRAID_TRACE=$2 should fail"
    grep -q "$1" <<<"$out" && [ "$(wc -l <<<"$out")" = 1 ] || fail "BRAID_TRACE=$2: $out"
}
refused 'BRAID_TRACE=.* is a folder' "$dir"
refused 'BRAID_TRACE: cannot write .*/no/x.0.json' "$dir/no/x.json"
BRAID_TRACE_DETAIL=some refused 'BRAID_TRACE_DETAIL=some' "$dir/d.json"
BRAID_TRACE_DETAIL=0 traced "$dir/d.json" --policy p3 >/dev/null || fail "BRAID_TRACE_DETAIL=0"
[ "$(grep -c '"ph":"X"' "$dir/d.0.json")" = 9 ] || fail "not operations alone: $(cat "$dir/d.0.json")"
(cd "$dir" && ! ls -- *.new 2>/dev/null) || fail "temporary files are left"

"$braid" plan --simulate --model "$dir/three.csv" --topology bcube:2,2 --policy p3 | grep -q '^\* p3' || fail "plan --simulate"

# One rank has nothing to wait for once its iterations are through: 3 layers of 20 ms.
out=$("$braid" sim --model "$dir/large.csv" --times "$dir/slow.csv" -n 1 --policy p3 2>&1) || fail "sim -n 1: $out"
grep -Eq '^\* p3 +3 +urgent +60\.000 +0\.000 +1\.00' <<<"$out" || fail "sim -n 1: $out"

# No title, no computation, and one rank: an iteration of no time, of which nothing is a part.
printf 'layer,name,kind,parameters,forward_multiply_adds\n1,a,Linear,250,0\n' >"$dir/plain.csv"
"$braid" sim --model "$dir/plain.csv" -n 1 --layers --svg "$dir/n.svg" --trace "$dir/n.trace" --json "$dir/n.json" >"$dir/out" ||
    fail "sim of no time: $(cat "$dir/out")"
[ "$(head -n 1 "$dir/out")" = "# braid sim: $dir/plain.csv" ] || fail "not named by its file: $(cat "$dir/out")"
grep -Eq '^. layerwise .* 0\.000 +1\.00 +100\.0 %.* 0\.000 +\+0\.0 %$' "$dir/out" || fail "sim of no time: $(cat "$dir/out")"
for file in out n.svg n.trace n.json; do
    grep -Ewiq -- '-?nan|inf|null' "$dir/$file" && fail "no number in $file: $(cat "$dir/$file")"
done

# a and b are the planner's, the algorithm is what runs: another prediction, and the same simulation to the last digit.
row() { # ARGUMENT...: simulated and predicted milliseconds
    "$braid" sim --model "$dir/three.csv" --times "$dir/times.csv" --topology bcube:2,2 --gbit 1 --policy p3 "$@" >"$dir/out" || fail "sim $*"
    awk '/^\*/ {print $5, $11}' "$dir/out"
}
read -r ring fitted < <(row --algorithm ring)
grep -q '^# simulated all-reduces: ring$' "$dir/out" || fail "what is simulated: $(cat "$dir/out")"
read -r as_ring given < <(row --algorithm ring --cost 5000,0)
[ "$ring $fitted" != "$as_ring $given" ] && [ "$ring" = "$as_ring" ] || fail "ring: $ring, predicted $fitted; by --cost $as_ring, predicted $given"
read -r bml _ < <(row --algorithm bml --links ring:20,8,0)
[ "$bml" != "$ring" ] || fail "bml takes as long as ring: $bml ms"

simulated() { says "$1" --simulate --model "$dir/three.csv" "${@:2}"; }
simulated '--gbit fast|0.001|10000' --gbit fast
simulated '--latency -3|0.01' --latency -3
simulated '--rails|BCube' --topology bcube:2,2 --rails 2
simulated '--hosts|--calibration|--measure' --hosts 2x2
simulated 'rails|rank|BCube' --topology hosts:2x2
simulated "--algorithm|'nothing'" --algorithm nothing --cost 5,1
simulated 'bml|BCube|BRAID_TOPOLOGY' -n 4 --algorithm bml --cost 5,1
says '--gbit|--simulate' --model "$dir/three.csv" --gbit 1
says '--model FILE' --simulate

says 'No such file' --model "$dir/none.csv"
says 'times.csv, line 2' --model "$dir/times.csv"
says '--speed fast' --model "$dir/three.csv" --speed fast
says '--overtake fast' --model "$dir/three.csv" --overtake fast
says '--rails|BCube' --model "$dir/three.csv" --topology bcube:2,2 --rails 2
says '--rails|--model FILE' --rails 2
says '--cost 5|A,B' --model "$dir/three.csv" --cost 5
says '--cost 5,-1|A,B' --model "$dir/three.csv" --cost 5,-1
says '--links ring:5|LAW:ALPHA,BETA,GAMMA' --model "$dir/three.csv" --links ring:5
says 'star|ring, halving' --model "$dir/three.csv" --links star:5,1,1
says '--cost|--links|--calibration' --model "$dir/three.csv" -n 4 --algorithm ring --cost 1,1
says '--policy fast|layerwise' --model "$dir/three.csv" --policy fast
says "'nothing'|flat, tree" --model "$dir/three.csv" -n 4 --algorithm nothing
says '--model FILE' --svg "$dir/x.svg"
says '--dot|--model' --model "$dir/three.csv" --dot "$dir/x.dot"
says '--times|--speed' --model "$dir/three.csv" --speed 1 --times "$dir/times.csv"
says '--cost|--links|--calibration' --model "$dir/three.csv" --cost 1,1 --links ring:1,1,1
says 'No such file' --model "$dir/three.csv" --svg "$dir/no/where.svg"
printf '1,1000,1000\n3,1,1\n' >"$dir/bad.csv"
says 'bad.csv, line 2|2,forward_us,backward_us' --model "$dir/three.csv" --times "$dir/bad.csv"
head -n 2 "$dir/times.csv" >"$dir/bad.csv"
says 'bad.csv|1 layers|3' --model "$dir/three.csv" --times "$dir/bad.csv"
(cat "$dir/times.csv" && echo 4,1,1) >"$dir/bad.csv"
says 'bad.csv, line 5|3 layers' --model "$dir/three.csv" --times "$dir/bad.csv"
echo "braid plan --model is fine"
