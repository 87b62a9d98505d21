// Command lambda is the function that CodeDeploy calls before a version of another function gets traffic. It only
// starts package releasecheck, which has the logic. Package functions lists the functions.
package main

import (
	"os"
	"strings"
	"sync"

	"github.com/gatewright/gatewright/functions"
	"github.com/gatewright/gatewright/functions/releasecheck"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/runtime/cloud"
	"github.com/gatewright/gatewright/shared/runtime/cloud/codedeploy"
	"github.com/gatewright/gatewright/shared/runtime/trigger"
)

func main() {
	cloud.Start(func(p installation.Parts) (any, error) {
		sdk, err := cloud.SDK(os.Getenv)
		if err != nil {
			return nil, err
		}
		// The probes are created for the first event, because they would double the time of the start.
		probes := sync.OnceValues(func() (releasecheck.Probes, error) {
			var triggered []trigger.Function
			for _, f := range functions.Triggered() {
				triggered = append(triggered, f.Function)
			}
			return releasecheck.NewProbes(functions.APIGroups(), triggered, p.IDs)
		})
		functionName := os.Getenv("AWS_LAMBDA_FUNCTION_NAME")
		return (&releasecheck.Check{
			Releases: codedeploy.New(sdk), Probes: probes, Prefix: strings.TrimSuffix(functionName, releasecheck.Function.Name),
			Log: p.Log,
		}).Handle, nil
	})
}
