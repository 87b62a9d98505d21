// Command lambda is the function that CodeDeploy calls before a version of another function gets traffic. Wiring only: what it does is in
// package releasecheck, and which functions there are in package functions.
package main

import (
	"os"
	"strings"
	"sync"

	"github.com/gatewright/gatewright/functions"
	"github.com/gatewright/gatewright/functions/releasecheck"
	"github.com/gatewright/gatewright/shared/cloud"
	"github.com/gatewright/gatewright/shared/cloud/codedeploy"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/trigger"
)

func main() {
	cloud.Start(func(p installation.Parts) (any, error) {
		sdk, err := cloud.SDK(os.Getenv)
		if err != nil {
			return nil, err
		}
		// Before the first event rather than at the start: it takes as long as the rest of the start.
		probes := sync.OnceValues(func() (releasecheck.Probes, error) {
			var called []trigger.Function
			for _, f := range functions.Triggered() {
				called = append(called, f.Function)
			}
			return releasecheck.ProbesOf(functions.Described(), called, p.IDs)
		})
		own := os.Getenv("AWS_LAMBDA_FUNCTION_NAME")
		return (&releasecheck.Check{
			Releases: codedeploy.New(sdk), Probes: probes, Prefix: strings.TrimSuffix(own, releasecheck.Function.Name), Log: p.Log,
		}).Handle, nil
	})
}
