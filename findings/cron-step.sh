#!/bin/sh
# github.com/robfig/cron/v3 v3.0.1, which reads the schedules of CronJobs, beside cronsim 2.8 (PyPI): "0 0 */2 * 1".
# Guess: "Mondays with an odd date", as cron of Debian and cronsim have it: a day field that begins with * restricts the other.
# Seen: in Kubernetes */2 is no star but a list of days, and the two day fields are joined by "or": each odd day and each
# Monday, 18 runs in March 2027 instead of 3. croniter 7.0.0 (PyPI) does as Kubernetes.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --disable-pip-version-check cronsim==2.8 croniter==7.0.0
cd "$dir"
cat >runs.py <<'EOF'
from datetime import datetime, timezone

from croniter import croniter
from cronsim import CronSim

before = datetime(2027, 2, 28, 12, tzinfo=timezone.utc)
for name, runs in (
    ("cronsim 2.8", CronSim("0 0 */2 * 1", before)),
    ("croniter 7.0.0", croniter("0 0 */2 * 1", before, ret_type=datetime)),
):
    march = [day.day for day in (next(runs) for _ in range(25)) if (day.year, day.month) == (2027, 3)]
    print(name, march)
EOF
cat >main.go <<'EOF'
package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

func main() {
	schedule, err := cron.ParseStandard("0 0 */2 * 1")
	if err != nil {
		panic(err)
	}
	days := []string{}
	for t := schedule.Next(time.Date(2027, 2, 28, 12, 0, 0, 0, time.UTC)); t.Month() == time.March; t = schedule.Next(t) {
		days = append(days, fmt.Sprint(t.Day()))
	}
	fmt.Printf("robfig/cron v3.0.1 [%s]\n", strings.Join(days, ", "))
}
EOF
go mod init example.com/finding 2>log || cat log
go get github.com/robfig/cron/v3@v3.0.1 2>log || cat log
{ "$dir/venv/bin/python" runs.py; go run .; } >seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
cronsim 2.8 [1, 15, 29]
croniter 7.0.0 [1, 3, 5, 7, 8, 9, 11, 13, 15, 17, 19, 21, 22, 23, 25, 27, 29, 31]
robfig/cron v3.0.1 [1, 3, 5, 7, 8, 9, 11, 13, 15, 17, 19, 21, 22, 23, 25, 27, 29, 31]
EOF
