// Command lambda is the function that checks an installation from another region. It only starts package
// syntheticcheck, which has the logic.
package main

import (
	"log/slog"
	"os"
	"time"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/gatewright/gatewright/functions/syntheticcheck"
	"github.com/gatewright/gatewright/shared/runtime/cloud/parameters"
)

func main() {
	log := slog.New(slog.NewJSONHandler(os.Stdout, nil))
	settings, err := syntheticcheck.ReadSettings(os.Getenv)
	if err != nil {
		log.Error("the function cannot start", "error", err)
		os.Exit(1)
	}
	parameterStore, err := parameters.Open(os.Getenv)
	if err != nil {
		log.Error("the function cannot start", "error", err)
		os.Exit(1)
	}
	lambda.Start(syntheticcheck.New(settings, parameterStore, log, time.Now).Handle)
}
