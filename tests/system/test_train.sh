#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# braid train: what is synchronous gives the weights that one process computes for all ranks, to the bit; misuse is named.
set -euo pipefail
braid=$BRAID_BUILD/braid
few="--iterations 12 --samples 500 --warmup 4"

weights() { # OPTIONS...: the digest of the weights
    # shellcheck disable=SC2086
    "$@" $few | sed -n 's/.*weights //p'
}

job() { # RANKS OPTIONS...
    local ranks=$1
    shift
    weights "$braid" run --no-prefix -n "$ranks" -- "$braid" train "$@"
}

same() { # WANTED GOT WHAT
    if [[ -z $1 || $1 != "$2" ]]; then
        echo "$3: weights $2, not $1" >&2
        exit 1
    fi
}

alone=$(weights "$braid" train --alone 3)
same "$alone" "$(job 3 --servers ssgd)" "3 ranks, servers"
same "$alone" "$(job 3 --servers ssgd --count 1)" "3 ranks, one server"
delayed=(--servers ssd --steps 3)
same "$(weights "$braid" train --alone 3 "${delayed[@]}")" "$(job 3 "${delayed[@]}")" "3 ranks, ssd"
same "$(weights "$braid" train --alone 3 "${delayed[@]}" --local sgd)" "$(job 3 "${delayed[@]}" --local sgd)" "3 ranks, ssd, sgd"
alone=$(weights "$braid" train --alone 2)
for policy in layerwise single bucket mgwfbp optimal p3 auto; do # a sum of two has one order
    same "$alone" "$(job 2 --policy "$policy")" "2 ranks, policy $policy"
done

refuses() { # WORDS OPTIONS...
    local words=$1 said
    shift
    if said=$("$braid" train "$@" 2>&1) || [[ $said != *"$words"* ]]; then
        echo "braid train $*: \"$said\" lacks \"$words\"" >&2
        exit 1
    fi
}

refuses "either" --policy p3 --servers ssd
refuses "nothing else" --alone 2 --servers asgd
refuses "needs --steps" --alone 2 --servers ssd
refuses "greater than 0" --rate fast
refuses "no method sdg" --servers sdg
