package main

import (
	"fmt"
	"path"

	"github.com/gatewright/gatewright/infra/removals"
)

// checkAlarmRecipients checks a protected installation whose alarms would notify nobody. It returns an error if the
// installation is deployed for the first time, if the alarms of the deployed stack notify somebody, or if its stage's
// file has changed since the last deployment. It only warns if the file has not changed, so that a new release can be
// deployed. A file counts as unchanged if an earlier release deployed the installation and recorded no digest.
func (d deployment) checkAlarmRecipients(deployed, planned removals.Stack) error {
	if alarms, notifying := planned.CountAlarms(); !planned.Protected || alarms == 0 || notifying > 0 {
		return nil
	}
	file := path.Join("infra/stages", d.stage+".json")
	const advice = `add the line "alarmEmail": "you@example.com", with the address of a person or a team (or ` +
		`"alarmTopic" with the ARN of a topic of SNS)`
	previous := deployed.StageFileDigest()
	_, notifying := deployed.CountAlarms()
	switch {
	case len(deployed.Templates) == 0:
		return refuse("%s is protected and names nobody who hears of alarms: %s", file, advice)
	case notifying > 0:
		return refuse("%s is protected, and alarms of %s would no longer notify anybody: %s", file, d.stackName(), advice)
	case previous != "" && previous != planned.StageFileDigest():
		return refuse("%s is protected and has changed, and names nobody who hears of alarms: %s", file, advice)
	}
	_, err := fmt.Fprintf(d.out, "Alarms of %s notify nobody, and make deploy will refuse the next change of %s: %s.\n",
		d.stackName(), file, advice)
	return err
}
