package main

import (
	"fmt"
	"path"

	"github.com/gatewright/gatewright/infra/removals"
)

// heard refuses a protected installation whose alarms nobody would hear: a first deployment, and one whose stage's file has changed since
// the deployment before. An installation whose file is as it was goes on with a warning, so that a release can be deployed as before. A file
// of which nothing is known, because an earlier release deployed it, counts as unchanged.
func (d deployment) heard(deployed, planned removals.Stack) error {
	if all, heard := planned.Alarms(); !planned.Protected || all == 0 || heard > 0 {
		return nil
	}
	file := path.Join("infra/stages", d.stage+".json")
	const line = `add the line "alarmEmail": "you@example.com", with the address of who is to hear of them (or "alarmTopic" with the ARN of a topic of SNS)`
	was := deployed.StageFile()
	_, heard := deployed.Alarms()
	switch {
	case len(deployed.Templates) == 0:
		return refuse("%s is protected and names nobody who hears of alarms: %s", file, line)
	case heard > 0:
		return refuse("%s is protected, and alarms of %s would reach nobody any more: %s", file, d.stack(), line)
	case was != "" && was != planned.StageFile():
		return refuse("%s is protected and has changed, and names nobody who hears of alarms: %s", file, line)
	}
	_, err := fmt.Fprintf(d.out, "Alarms of %s reach nobody, and the next change of %s will be refused for it: %s.\n", d.stack(), file, line)
	return err
}
