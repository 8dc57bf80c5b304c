#!/bin/sh
# github.com/robfig/cron/v3 v3.0.1, which reads the schedules of CronJobs, beside cronsim 2.8 (PyPI): daily at 02:30 in a
# time zone with summer time, as spec.timeZone allows.
# Guess: one run a day, at the change of clocks too; that is what cron of Debian and cronsim make of it.
# Seen: no run at all on the day that has no 02:30, and two on the day that has it twice.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --disable-pip-version-check cronsim==2.8 tzdata==2025.2
cd "$dir"
cat >runs.py <<'EOF'
from datetime import datetime
from zoneinfo import ZoneInfo

from cronsim import CronSim

for before in (datetime(2027, 3, 27, 12), datetime(2027, 10, 30, 12)):
    runs = CronSim("30 2 * * *", before.replace(tzinfo=ZoneInfo("Europe/Berlin")))
    print("cronsim 2.8:", ", ".join(f"{next(runs):%d.%m. %H:%M%z}" for _ in range(2)))
EOF
cat >main.go <<'EOF'
package main

import (
	"fmt"
	"time"
	_ "time/tzdata"

	"github.com/robfig/cron/v3"
)

func main() {
	berlin, _ := time.LoadLocation("Europe/Berlin")
	schedule, err := cron.ParseStandard("30 2 * * *")
	if err != nil {
		panic(err)
	}
	for _, before := range []time.Time{time.Date(2027, 3, 27, 12, 0, 0, 0, berlin), time.Date(2027, 10, 30, 12, 0, 0, 0, berlin)} {
		first := schedule.Next(before)
		fmt.Printf("robfig/cron v3.0.1: %s, %s\n", first.Format("02.01. 15:04-0700"), schedule.Next(first).Format("02.01. 15:04-0700"))
	}
}
EOF
go mod init example.com/finding 2>log || cat log
go get github.com/robfig/cron/v3@v3.0.1 2>log || cat log
{ "$dir/venv/bin/python" runs.py; go run .; } >seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
cronsim 2.8: 28.03. 03:00+0200, 29.03. 02:30+0200
cronsim 2.8: 31.10. 02:30+0200, 01.11. 02:30+0100
robfig/cron v3.0.1: 29.03. 02:30+0200, 30.03. 02:30+0200
robfig/cron v3.0.1: 31.10. 02:30+0200, 31.10. 02:30+0100
EOF
