#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# braid train: what is synchronous gives the weights that one process computes for all ranks, to the bit; misuse is named.
set -euo pipefail
braid=$BRAID_BUILD/braid
# The accuracy, which every rank measures when it has trained, is not looked at here: of the smallest set it costs least. On the 8,000 samples of
# the default it would take fifteen times as long as the training.
few="--iterations 12 --samples 500 --warmup 4 --test 64"

out=$(mktemp)
trap 'rm -f "$out"' EXIT
export BRAID_TIMEOUT=60 # a rank that is stuck says so before the test's time is over

fail() {
    echo "FAILED: $*" >&2
    cat "$out" >&2
    exit 1
}

weights() { # OPTIONS...: the digest of the weights
    # shellcheck disable=SC2086
    "$@" $few > "$out" 2>&1 || fail "$*: exit code $?"
    sed -n 's/.*weights //p' "$out"
}

same() { # WANTED RANKS OPTIONS...: so many ranks come to these weights
    local wanted=$1 ranks=$2 got
    shift 2
    got=$(weights "$braid" run --no-prefix -n "$ranks" -- "$braid" train "$@")
    [[ -n $wanted && $wanted == "$got" ]] || fail "$ranks ranks, $*: weights $got, not $wanted"
}

single=$(weights "$braid" train --single 3)
same "$single" 3 --servers ssgd
same "$single" 3 --servers ssgd --count 1
delayed=(--servers ssd --steps 3)
single=$(weights "$braid" train --single 3 "${delayed[@]}")
same "$single" 3 "${delayed[@]}"
single=$(weights "$braid" train --single 3 "${delayed[@]}" --local sgd)
same "$single" 3 "${delayed[@]}" --local sgd
single=$(weights "$braid" train --single 2)
same "$single" 2 --policy auto # a sum of two has one order
single=$(weights "$braid" train --single 3)
for policy in layerwise single bucket mgwfbp optimal p3 auto; do
    same "$single" 3 --policy "$policy" --algorithm direct # in the order of the ranks
done

# Without --warmup the first 500 iterations are ssgd, as in the paper: the worker's own first update shows in the gradient of iteration 501.
tiny() { # OPTIONS...
    "$braid" train --single 1 --servers ssd --steps 1 -n 502 --batch 1 --width 1 --samples 50 --test 64 "$@" > "$out" 2>&1 ||
        fail "train -n 502 $*: exit code $?"
    sed -n 's/.*weights //p' "$out"
}
if [[ $BRAID_SANITIZE != thread ]]; then # one thread computes 1,500 iterations: nothing for ThreadSanitizer, and minutes with it
    default=$(tiny)
    [[ -n $default && $default == "$(tiny --warmup 500)" ]] || fail "the warm-up is not of 500 iterations: $default"
    [[ $default != "$(tiny --warmup 501)" ]] || fail "the warm-up makes no difference"
fi

"$braid" train --help > "$out"
[[ $(head -n 1 "$out") == "Usage: braid train "* ]] || fail "train --help does not begin with its usage"

refuses() { # NOUNS OPTIONS...: it fails, and the message has each of the nouns, which | separates
    local nouns noun said
    IFS='|' read -ra nouns <<< "$1"
    shift
    if said=$("$braid" train "$@" 2>&1); then
        echo "braid train $* is not refused" >&2
        exit 1
    fi
    for noun in "${nouns[@]}"; do
        [[ $said == *"$noun"* ]] || { echo "braid train $*: \"$said\" lacks \"$noun\"" >&2 && exit 1; }
    done
}

refuses "--policy|--servers" --policy p3 --servers ssd
refuses "ssgd|ssd" --single 2 --servers asgd
refuses "--algorithm|gradient session" --single 2 --algorithm direct
refuses "quickest" --algorithm quickest
refuses "--steps" --single 2 --servers ssd
refuses "--rate fast" --rate fast
refuses "sdg" --servers sdg
