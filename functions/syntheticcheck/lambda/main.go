// Command lambda is the function that checks an installation from another region. Wiring
// only: what it does is in package syntheticcheck.
package main

import (
	"log/slog"
	"os"
	"time"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/gatewright/gatewright/functions/syntheticcheck"
	"github.com/gatewright/gatewright/shared/cloud/parameters"
)

func main() {
	log := slog.New(slog.NewJSONHandler(os.Stdout, nil))
	settings, err := syntheticcheck.Configured(os.Getenv)
	if err != nil {
		log.Error("the function cannot start", "error", err)
		os.Exit(1)
	}
	keys, err := parameters.Open(os.Getenv)
	if err != nil {
		log.Error("the function cannot start", "error", err)
		os.Exit(1)
	}
	lambda.Start(syntheticcheck.New(settings, keys, log, time.Now).Handle)
}
