#!/bin/sh
# Run the named phases of the tests, each to its end, and fail if any of them failed.
#
#   test.sh fast|hostile|spark|kafka|s3|airflow|e2e|killed|consumers|stack|drawn|histories|campaign ...      PYTEST_ADDOPTS is passed on to pytest as usual
set -u
cd "$(dirname "$0")/.."

# Airflow writes its configuration on import: never into the home of whoever runs the tests.
AIRFLOW_HOME=$(mktemp -d "${TMPDIR:-/tmp}/waybill-airflow.XXXXXX") || exit 1
export AIRFLOW_HOME
# What failed in any phase is said once more at the end, below whatever later phases print.
WAYBILL_FAILURES=$(mktemp "${TMPDIR:-/tmp}/waybill-failures.XXXXXX") || exit 1
export WAYBILL_FAILURES
trap 'rm -rf "$AIRFLOW_HOME" "$WAYBILL_FAILURES"' EXIT
trap 'exit 130' INT TERM HUP

# Those of the given folders and files that hold a test, so that "nothing collected" stays an error.
with_tests() {
    for path in "$@"; do
        if [ -e "$path" ] && [ -n "$(find "$path" -name 'test_*.py' -print)" ]; then
            printf '%s ' "$path"
        fi
    done
}

# Two processes, each with a session of Spark and servers of its own: much of a small batch is waiting.
two="-n 2 --dist worksteal"
# The same where the tests of a file share an Airflow.
two_by_file="-n 2 --dist loadfile"

run_phase() {
    case $1 in
        fast)
            paths="tests/unit tests/contract tests/golden tests/property tests/test_project_structure.py"
            options=$two ;;
        hostile) paths="tests/hostile" options=$two ;;
        spark) paths="tests/spark" options=$two ;;
        kafka) paths="tests/kafka" options=$two ;;
        s3) paths="tests/s3" options=$two ;;
        airflow) paths="tests/dags" options=$two_by_file ;;
        e2e) paths="tests/e2e" options=$two_by_file ;;
        killed) paths="tests/killed" options=$two ;;
        # Each reader's Java and the broker are shared by all tests.
        consumers) paths="tests/consumers" options= ;;
        stack) paths="tests/stack" options= ;;
        # What draws cases by itself, for longer than `make test` does: see `make test-nightly`.
        drawn) paths="tests/property tests/contract tests/hostile" options="$two --timeout=7200" ;;
        histories)
            paths="tests/spark/test_merge_histories.py tests/spark/test_merge_bags.py
                tests/spark/test_gate_machine.py tests/spark/test_split_updates.py"
            options="--timeout=1800" ;;
        # What it killed, and when, is on the terminal as it goes.
        campaign) paths="tests/killed/test_campaign.py" options="--capture=no" ;;
        *)
            echo "test.sh: no phase '$1'; there are fast, hostile, spark, kafka, s3, airflow, e2e, killed, consumers, stack, drawn, histories and campaign" >&2
            return 2 ;;
    esac
    # shellcheck disable=SC2086 # lists of words
    paths=$(with_tests $paths)
    if [ -z "$paths" ]; then
        outcome=none
        return 0
    fi
    printf '\n== %s: %s\n' "$1" "$paths"
    # shellcheck disable=SC2086
    .venv/bin/python -m pytest --quiet --durations=10 --durations-min=1 $options $paths
    code=$?
    case $code in
        0) outcome=passed ;;
        1) outcome=FAILED ;;
        2) outcome=INTERRUPTED ;;
        5) outcome="NOTHING COLLECTED" ;;
        *) outcome="BROKEN (pytest ended with $code)" ;;
    esac
    return $code
}

failed=0
summary=
for phase in "$@"; do
    outcome=BROKEN
    started=$(date +%s)
    run_phase "$phase" || failed=1
    summary="$summary$(printf '%-8s %-18s %4d s' "$phase" "$outcome" $(($(date +%s) - started)))
"
done
printf '\n== tests\n%s' "$summary"
if [ -s "$WAYBILL_FAILURES" ]; then
    printf '\n== failures\n'
    cat "$WAYBILL_FAILURES"
fi
exit $failed
