#!/usr/bin/env bash
# Every night: the clone is loaded from the model and compared with today's source. Once a month,
# while the caps allow, a new model. Started by cron (crontab), systemd (privbench-nightly.timer) or
# Kubernetes (cronjob.yaml), in a folder that holds privbench.toml and workload.sql.
#
# Exit codes are privbench's: 0 done, 1 a gate failed, 3 a database did not answer, ...
set -euo pipefail

state="${STATE:?folder for ledger, models and reports}"
model="$state/shop.privbench"
month="$(date --utc +%Y-%m)"
report="$state/reports/$(date +%F)"
metrics="$state/metrics"
mkdir -p "$metrics"

# One run at a time, whoever starts it.
exec 9>"$state/nightly.lock"
flock --nonblock 9 || { echo "another run is under way" >&2; exit 3; }

privbench check "service=prod" -c privbench.toml

# A new model is a release: it spends budget. Code 4 says that a cap would be passed, or that the fit
# broke off before and somebody has to decide (its last lines say how): the old model stays, and its
# loss does not grow.
if [ ! -e "$state/released-$month" ]; then
    code=0
    privbench --log-format json fit "service=prod" -c privbench.toml \
        --ledger "$state/ledger" --max-epsilon-per-month 3.2 -o "$model" --force \
        --metrics "$metrics/shop-fit.prom" || code=$?
    case "$code" in
        0) touch "$state/released-$month" ;;
        4) echo "no new model: going on with the old one" >&2 ;;
        *) exit "$code" ;;
    esac
fi

# A target with releases in this ledger may be a source, and is not replaced.
privbench load "$model" "service=clone" --replace --ledger "$state/ledger" \
    --metrics "$metrics/shop-load.prom"

# The same folder goes on with a comparison that was broken off. Nothing in it may leave the house.
privbench --log-format json compare "service=prod" "service=clone" \
    -c privbench.toml -w workload.sql -o "$report" \
    --fail-if 'qerror.p95 > 10' --fail-if 'integrity.violations > 0' --junit "$report/gates.xml" \
    --metrics "$metrics/shop-compare.prom"
