package main

import (
	"fmt"
	"path"

	"github.com/gatewright/gatewright/infra/removals"
)

// heard refuses a protected installation whose alarms notify nobody, if it is deployed for the first time, if its alarms notify somebody now,
// or if its stage's file has changed since the last deployment. It only warns if the file has not changed, so that a new release can be
// deployed. A file counts as unchanged if an earlier release deployed the installation and recorded no digest.
func (d deployment) heard(deployed, planned removals.Stack) error {
	if all, heard := planned.Alarms(); !planned.Protected || all == 0 || heard > 0 {
		return nil
	}
	file := path.Join("infra/stages", d.stage+".json")
	const line = `add the line "alarmEmail": "you@example.com", with the address of a person or a team (or "alarmTopic" with the ARN of a topic of SNS)`
	was := deployed.StageFile()
	_, heard := deployed.Alarms()
	switch {
	case len(deployed.Templates) == 0:
		return refuse("%s is protected and names nobody who hears of alarms: %s", file, line)
	case heard > 0:
		return refuse("%s is protected, and alarms of %s would no longer notify anybody: %s", file, d.stack(), line)
	case was != "" && was != planned.StageFile():
		return refuse("%s is protected and has changed, and names nobody who hears of alarms: %s", file, line)
	}
	_, err := fmt.Fprintf(d.out, "Alarms of %s notify nobody, and make deploy will refuse the next change of %s: %s.\n", d.stack(), file, line)
	return err
}
