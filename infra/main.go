package main

import (
	"fmt"
	"os"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/jsii-runtime-go"
)

func main() {
	defer jsii.Close()
	app := awscdk.NewApp(nil)
	settings, err := settingsOf(func(name string) any { return app.Node().TryGetContext(&name) })
	if err == nil {
		err = settings.checkVectors()
	}
	declarations := declaredFunctions(settings)
	if err == nil {
		err = checkTriggers(declarations)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "infra:", err)
		os.Exit(1)
	}
	newInstallation(app, settings, declarations, declaredServices(settings))
	app.Synth(nil)
}
