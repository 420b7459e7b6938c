#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Every command that README.md shows is run, or is in the table below with the reason why not; one that the table does not know fails, as
# does a row that README.md does not show any more. A command is a line of an indented block up to two blanks or a comment, or
# what stands between backquotes and begins with a program.
# shellcheck disable=SC2016,SC2317 # what stands in single quotes is for the shells that run it; within() calls functions
set -uo pipefail
# shellcheck source=tests/within.sh
. "$BRAID_SOURCE/tests/within.sh"
# shellcheck source=tests/system/port.sh
. "$BRAID_SOURCE/tests/system/port.sh"
[[ -z $BRAID_SANITIZE ]] || exit 77 # the commands are what is tested, and each has a test of its own that sanitizers go through
work=$(mktemp -d)
port=$(free_port $((21000 + $$ % 9000)))
bed=r$$ # nobody else's
server=
export port bed BRAID_STATS=$work/stats PATH=$BRAID_BUILD:$PATH
cleanup() {
    [[ -z $server ]] || kill -9 "$server" 2> /dev/null
    [[ -e /run/braid/$bed ]] && braid bcube down "$bed" > /dev/null
    rm -rf "$work"
}
trap cleanup EXIT
cd "$work" || exit 1
ln -s "$BRAID_SOURCE/data" data
cp "$BRAID_SOURCE/examples/allreduce.c" main.c

failures=0
fail() {
    echo "FAILED: $*" >&2
    failures=$((failures + 1))
}

# ---- what README.md shows ---------------------------------------------------------------------------------------------

{
    # Indented blocks outside of ```; a line that begins with more blanks goes on with the words of the one before.
    awk '/^```/ {c = !c; next} !c && /^    [^ ]/ {sub(/^    /, ""); sub(/(  | # ).*/, ""); print}' "$BRAID_SOURCE/README.md"
    awk '/^```/ {c = !c; next} !c && !/^    /' "$BRAID_SOURCE/README.md" | tr '\n' ' ' | grep -oE '`[^`]+`' | tr -d '`' |
        grep -E '^(braid |\./dev |tests/|tshark |BRAID_[A-Z]+=[^ ]* +[^ ])'
} | sort -u > shown

# ---- the table: a command as README.md has it, and under it what runs here ----------------------------------------------
#
#     =           the same
#     < COMMAND   in the background, a server
#     - REASON    nothing
#     COMMAND     the same with names, sizes and rounds for this place: hosts are localhost, testbeds have a name of their own, what
#                 says "in a job" has a job, and what would take minutes has less to do

cat > table << 'END'
./dev demo
- installs packages; system/demo runs `braid demo`
./dev test
- is what runs this test
./dev test --all
- the same
./dev test --launchers
- installs packages; the tests of tests/launchers do
./dev test --torch
- installs PyTorch; the tests of tests/torch do
./dev torch
- the same; torch/example does
./dev test --gpu
- needs a GPU
./dev bench
- takes hours
./dev lint
- its tools are not everywhere; CI runs it
cmake --preset release && cmake --build build/release
- has been done: this test runs what it made
cmake -B build -G Ninja && cmake --build build -j
- house/release builds with both compilers
cmake --install build --prefix /usr/local
cmake --install "$BRAID_BUILD" --prefix "$PWD/prefix" && [ -x prefix/bin/braid ]
cc main.c $(pkg-config --cflags --libs braid)
lib=$(dirname "$(find "$PWD/prefix" -name libbraid.so)"); export PKG_CONFIG_PATH=$lib/pkgconfig; cc main.c $(pkg-config --cflags --libs braid) -Wl,-rpath,"$lib"
braid run -n 4 -- ./hello
lib=$(dirname "$(find "$PWD/prefix" -name libbraid.so)"); export PKG_CONFIG_PATH=$lib/pkgconfig; cc "$BRAID_SOURCE/examples/hello.c" -o hello $(pkg-config --cflags --libs braid) -Wl,-rpath,"$lib" && braid run -n 4 -- ./hello
mpirun -n 4 ./hello
- launchers/openmpi does
mpiexec -n 4 ./hello
- launchers/mpich does
srun -n 4 ./hello
- launchers/slurm does
torchrun --nproc_per_node 4 --no_python ./hello
- launchers/torchrun does
pip install ./bindings/python
- python/install does
pip install ./bindings/python ./bindings/torch
- torch/install does
torchrun --nproc-per-node 4 train.py
- the same, with a script of 4 lines
braid run -n 4 -- python3 examples/hello.py
- python/install does, where the package was built
braid info
=
braid run -n N [--rails R] -- CMD
braid run -n 2 --rails 2 -- true
braid run -n 4 -- braid train -s ssd -k 4
braid run -n 4 -- braid train -s ssd -k 4 --iterations 4 --warmup 2 --samples 256 --test 64
braid allreduce -b 8 -e 64M -f 2
braid run -n 2 -- braid allreduce -b 8 -e 64K -f 2 -n 2 -w 1
braid run -n 4 --rails 2 --backend tcp -- braid allreduce -b 64K -e 256M -f 4 --json out.json
braid run -n 4 --rails 2 --backend tcp -- braid allreduce -b 64K -e 1M -f 4 -n 2 -w 1 --json out.json && [ -s out.json ]
braid perf write_bw
< braid perf write_bw -p "$port"
braid perf write_bw -a --report_gbits HOST --out_json
braid perf write_bw -a --report_gbits localhost --out_json -p "$port" -n 5 && [ -s perftest_out.json ]
braid perf write_bw|write_lat|read_bw|read_lat|send_bw|send_lat|atomic_lat [SERVER]
for test in write_bw write_lat read_bw read_lat send_bw send_lat atomic_lat; do braid perf $test --help || exit; done
braid perf mesh --svg heat.svg
braid run -n 2 -- braid perf mesh -s 4K --svg heat.svg && [ -s heat.svg ]
braid calibrate -o cal.json
braid run -n 2 -- braid calibrate -o cal.json -e 4K --rounds 1 --collectives none && [ -s cal.json ]
braid plan --topology bcube:3,2
=
braid plan --model data/models/vgg19.csv -n 4
=
braid sim --model data/models/vgg19.csv -n 8 --gbit 10
braid sim --model data/models/lenet5.csv -n 2 --gbit 10 --policy p3 --iterations 2
braid train -p auto
braid run -n 2 -- braid train -p auto --iterations 4 --samples 256 --test 64
braid top
braid run -n 2 -- braid allreduce -b 4K -e 4K -n 1000000000 & until braid top --once; do kill -0 $! && sleep 0.1 || exit; done; kill $!
braid demo
- takes a minute and a half; system/demo runs it
braid bcube plan 3 2
=
braid bcube plan 3 2 --inventory-out site.yaml --checklist cables.txt --svg cube.svg
=
$EDITOR site.yaml
EDITOR='test -s'; $EDITOR site.yaml
braid bcube emulate 3 2
braid bcube emulate 3 2 --name "$bed-plain" --rate none && braid bcube down "$bed-plain"
braid bcube emulate 3 2 --rate 100mbit
braid bcube emulate 3 2 --rate 100mbit --name "$bed"
braid bcube check
braid bcube check --name "$bed"
braid bcube check --html page.html
braid bcube check --html page.html --name "$bed" && [ -s page.html ]
braid bcube check --inventory site.yaml --html page.html
braid bcube check --inventory "/run/braid/$bed/inventory.yaml" --html page.html && [ -s page.html ]
braid bcube matrix --svg heat.svg
braid bcube matrix --svg heat.svg --name "$bed" && [ -s heat.svg ]
braid bcube run -- braid allreduce --algorithm bml -b 16M -e 16M
braid bcube run --name "$bed" -- braid allreduce --algorithm bml -b 64K -e 64K -n 1 -w 1
braid bcube fault swap h11 0 1
braid bcube fault --name "$bed" swap h11 0 1 && { braid bcube check --name "$bed" | grep 'exchange the two plugs'; }
braid bcube down
braid bcube down --name "$bed"
BRAID_INVENTORY=site.yaml ... your launcher ...
- a launcher of a cluster
BRAID_BACKEND=verbs BRAID_DEVICES=mlx5_0,mlx5_1 ... your launcher ...
- RDMA devices; tests/guest has them
BRAID_BACKEND=udp ... your launcher ...
BRAID_BACKEND=udp braid run -n 2 -- braid allreduce -b 4K -e 4K -n 1 -w 1
BRAID_BACKEND=dpdk BRAID_DPDK_PORTS='0000:03:00.0,address=10.0.0.1/24' ... your launcher ...
- a port that DPDK drives; system/dpdk has virtual ones
tests/guest/run --setup rails:2 -- CMD
- boots a guest; the tests of tests/guest do
tshark -X lua_script:tools/wireshark/braid.lua -r job.pcap -Y braid
- needs a capture; house/wireshark has some
END

# ---- both say the same -------------------------------------------------------------------------------------------------

awk 'NR % 2' table | sort > known
while read -r command; do fail "README.md shows a command that this test does not know: $command"; done < <(comm -23 shown known)
while read -r command; do fail "README.md does not show any more: $command"; done < <(comm -13 shown known)
[[ $(wc -l < shown) -gt 30 ]] || fail "only $(wc -l < shown) commands were found in README.md"

# ---- run them ----------------------------------------------------------------------------------------------------------

while IFS= read -r command && IFS= read -r here; do
    begun=$SECONDS
    case $here in
    '- '*) continue ;;
    '< '*)
        timeout -k 1 120 bash -c "exec ${here#< }" > out 2>&1 &
        server=$!
        within 60 listens "$port" || fail "$command: nobody listens"
        continue
        ;;
    '='*) here=$command ;;
    esac
    if [[ $EUID -ne 0 && $here == *'$bed'* ]]; then
        echo "not run without root: $command"
        continue
    fi
    timeout -k 1 120 bash -c "$here" > out 2>&1 < /dev/null || fail "$command: exit code $? of: $here
$(tail -n 20 out)"
    echo "$((SECONDS - begun)) s: $command"
done < table
[[ -z $server ]] || wait "$server" || fail "the server of braid perf: exit code $?"
server=
[[ $failures -eq 0 ]] || exit 1
echo "the commands of README.md do what they say"
