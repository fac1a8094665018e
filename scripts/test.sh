#!/bin/sh
# Run the named phases of the tests, each to its end, and fail if any of them failed.
#
#   test.sh fast|hostile|spark|kafka|s3|verify|consumers|servers|airflow|e2e|browser|demo|killed|stack|drawn|histories|campaign ...
#
# One phase runs in two processes and shows what it does. Of several, WAYBILL_LANES (3) run beside each other, begun in
# the order of their names here, most in one process each: Spark and servers start once a phase, and while one waits
# others work. What each says comes when it ends, and is in build/tests meanwhile. PYTEST_ADDOPTS is passed on to pytest.
# Three lanes starve each other at times, and a server then answers too late: what failed beside others runs once more
# alone, and counts as failed if it fails again; the output names it all the same.
set -u
cd "$(dirname "$0")/.."

# Hundreds of processes are started here: each would compile all modules that it imports anew.
unset PYTHONDONTWRITEBYTECODE

PHASES="fast hostile spark kafka s3 verify consumers servers airflow e2e browser demo killed stack drawn histories campaign"
LOGS=build/tests

# Those of the given folders and files that hold a test, so that "nothing collected" stays an error.
with_tests() {
    for path in "$@"; do
        if [ -e "$path" ] && [ -n "$(find "$path" -name 'test_*.py' -print)" ]; then
            printf '%s ' "$path"
        fi
    done
}

# Several phases together run by day, without the tests of tests/nightly.py.
wanted=
if [ "${WAYBILL_LANES:-1}" -gt 1 ] && [ -z "${WAYBILL_NIGHTLY:-}" ]; then
    wanted="not nightly"
fi

# Says how the phase ended in $outcome.
run_phase() {
    two="-n 2 --dist worksteal"
    if [ "$lanes" -gt 1 ]; then
        two=
    fi
    # With Airflow, tests of a file share a database; and some only wait for its components.
    two_by_file="-n 2 --dist loadfile"
    case $1 in
        fast)
            paths="tests/unit tests/contract tests/golden tests/property tests/test_project_structure.py"
            options=$two ;;
        hostile) paths="tests/hostile" options=$two ;;
        spark) paths="tests/spark" options=$two ;;
        kafka) paths="tests/kafka" options=$two ;;
        s3) paths="tests/s3" options=$two ;;
        # Databases that are written while they are compared: beside another test both would starve.
        verify) paths="tests/verify" options= ;;
        airflow) paths="tests/dags" options=$two_by_file ;;
        e2e) paths="tests/e2e" options=$two_by_file ;;
        # One demo for all of its tests, and the pages in every state in another process.
        browser) paths="tests/browser" options=$two_by_file ;;
        # Both of them, in one process: they look at the same demo.
        demo) paths="tests/e2e tests/browser" options= ;;
        killed) paths="tests/killed" options=$two ;;
        # Each reader's Java and the broker are shared by all tests.
        consumers) paths="tests/consumers" options= ;;
        # All of them, in one process: they share the Spark that the first one starts.
        servers) paths="tests/s3 tests/verify tests/kafka tests/consumers" options= ;;
        stack) paths="tests/stack" options= ;;
        # What draws cases by itself, for longer than `make test` does: see `make test-nightly`.
        drawn) paths="tests/property tests/contract tests/hostile" options="$two --timeout=7200" ;;
        histories)
            paths="tests/spark/merge/test_merge_histories.py tests/spark/merge/test_merge_bags.py
                tests/spark/merge/test_merge_transaction_histories.py tests/spark/test_gate_machine.py
                tests/spark/merge/test_split_updates.py"
            options="--timeout=1800" ;;
        # What it killed, and when, is on the terminal as it goes.
        campaign) paths="tests/killed/test_campaign.py" options="--capture=no" ;;
    esac
    # shellcheck disable=SC2086 # lists of words
    paths=$(with_tests $paths)
    if [ -z "$paths" ]; then
        outcome=none
        return 0
    fi
    printf '\n== %s: %s\n' "$1" "$paths"
    # shellcheck disable=SC2086
    .venv/bin/python -m pytest --quiet --durations=0 --durations-min=5 --continue-on-collection-errors \
        -o cache_dir="build/tests/cache-$1" -m "$wanted" ${again:---cache-clear} $options $paths
    code=$?
    case $code in
        0) outcome=passed${again:+ alone} ;;
        1) outcome=FAILED ;;
        2) outcome=INTERRUPTED ;;
        5) outcome="NOTHING COLLECTED" ;;
        *) outcome="BROKEN (pytest ended with $code)" ;;
    esac
    return $code
}

# One phase, for its lane: in a process of its own, with its log, and a line in the summary.
run_lane() {
    # Airflow writes its configuration on import: never into the home of whoever runs the tests.
    AIRFLOW_HOME=$(mktemp -d "${TMPDIR:-/tmp}/waybill-airflow.XXXXXX") || exit 1
    export AIRFLOW_HOME
    trap 'rm -rf "$AIRFLOW_HOME"' EXIT
    outcome=BROKEN failed=0 started=$(date +%s)
    again=
    if [ -n "${WAYBILL_AGAIN:-}" ]; then
        again="--last-failed --last-failed-no-failures none"
    fi
    if [ "$lanes" -gt 1 ]; then
        log=$LOGS/$1${again:+.again}.log
        echo "== $1 has begun${again:+ again}: $log"
        run_phase "$1" >"$log" 2>&1 || failed=1
        cat "$log"
    else
        run_phase "$1" || failed=1
    fi
    printf '%-9s %-18s %4d s\n' "$1" "$outcome" $(($(date +%s) - started)) >>"$WAYBILL_SUMMARY"
    exit $failed
}

trap 'exit 130' INT TERM HUP
lanes=${WAYBILL_LANES:-3}
if [ "${1:-}" = --lane ]; then
    run_lane "$2"
fi
for phase in "$@"; do
    case " $PHASES " in
        *" $phase "*) ;;
        *)
            echo "test.sh: no phase '$phase'; there are $PHASES" >&2
            exit 2 ;;
    esac
done
if [ $# -eq 1 ]; then
    lanes=1
fi
mkdir -p "$LOGS"
# What failed in any phase is said once more at the end, below whatever later phases print.
WAYBILL_FAILURES=$(mktemp "${TMPDIR:-/tmp}/waybill-failures.XXXXXX") || exit 1
WAYBILL_SUMMARY=$(mktemp "${TMPDIR:-/tmp}/waybill-summary.XXXXXX") || exit 1
export WAYBILL_FAILURES WAYBILL_SUMMARY WAYBILL_LANES="$lanes"
trap 'rm -f "$WAYBILL_FAILURES" "$WAYBILL_SUMMARY"' EXIT

started=$(date +%s)
printf '%s\n' "$@" | xargs -n 1 -P "$lanes" scripts/test.sh --lane
if [ "$lanes" -gt 1 ] && [ -s "$WAYBILL_FAILURES" ]; then
    printf '\n== failed beside others\n'
    cat "$WAYBILL_FAILURES"
    : >"$WAYBILL_FAILURES"
    for phase in $(sed -n 's/ *FAILED .*//p' "$WAYBILL_SUMMARY"); do
        sed -i "/^$phase /d" "$WAYBILL_SUMMARY"
        WAYBILL_AGAIN=yes scripts/test.sh --lane "$phase"
    done
fi
printf '\n== tests: %d s\n' $(($(date +%s) - started))
cat "$WAYBILL_SUMMARY"
failed=0
for phase in "$@"; do
    if ! grep -q "^$phase " "$WAYBILL_SUMMARY"; then
        printf '%-9s %s\n' "$phase" "DID NOT END"
        failed=1
    elif ! grep -Eq "^$phase +(passed|none)" "$WAYBILL_SUMMARY"; then
        failed=1
    fi
done
if [ -s "$WAYBILL_FAILURES" ]; then
    printf '\n== failures\n'
    cat "$WAYBILL_FAILURES"
fi
exit $failed
