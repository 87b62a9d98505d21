package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/jsii-runtime-go"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "check" {
		fail(check(os.Args[2:]), 2)
		return
	}
	defer jsii.Close()
	app := awscdk.NewApp(nil)
	fail(checkKnownSettings(app.Node().GetAllContext(nil)), 1)
	settings, err := loadSettings(os.DirFS, func(name string) any { return app.Node().TryGetContext(&name) })
	if err == nil {
		err = settings.checkVectors()
	}
	specs := functionSpecs(settings)
	if err == nil {
		err = checkTriggers(specs)
	}
	fail(err, 1)
	installation := newInstallation(app, settings, specs, serviceSpecs(settings))
	newCheck(app, settings, installation)
	app.Synth(nil)
}

// fail prints err line by line and ends the process with the exit status code. It does nothing if err is nil.
func fail(err error, code int) {
	if err == nil {
		return
	}
	for line := range strings.Lines(err.Error()) {
		fmt.Fprintln(os.Stderr, "infra:", strings.TrimSuffix(line, "\n"))
	}
	os.Exit(code)
}

// check validates the settings of a stage: the settings in the arguments of a deployment and those in the stage's file.
// It creates nothing. The Makefile runs it before the build, because the build takes minutes.
func check(args []string) error {
	values := map[string]any{}
	flags := flag.NewFlagSet("check", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	addSetting := func(text string) error {
		name, value, ok := strings.Cut(text, "=")
		if !ok {
			return fmt.Errorf("-c %s says no value: -c name=value", name)
		}
		values[name] = value
		return nil
	}
	for _, arg := range args {
		if strings.HasPrefix(arg, "-context") || strings.HasPrefix(arg, "--c=") || arg == "--c" {
			return fmt.Errorf("the CDK reads %s as other words: write -c name=value or --context name=value", quoted(arg))
		}
	}
	flags.Func("c", "", addSetting)
	flags.Func("context", "", addSetting)
	if err := flags.Parse(args); err != nil {
		return fmt.Errorf("the context is words such as -c waf=true: %w", err)
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("the context is words such as -c waf=true, and no %q", flags.Arg(0))
	}
	if err := checkKnownSettings(values); err != nil {
		return err
	}
	for _, name := range sortedKeys(values) {
		if def, _ := settingNamed(name); def.personal {
			return fmt.Errorf("-c %s is personal, and everybody on this machine sees the arguments of a command: say it in "+
				"the stage's file alone", name)
		}
	}
	_, err := loadSettings(os.DirFS, func(name string) any { return values[name] })
	return err
}

// checkKnownSettings returns an error for unknown settings in the context: otherwise a mistyped
// setting would be ignored. The CDK's own settings have a colon or a slash in them.
func checkKnownSettings(context any) error {
	all, _ := context.(map[string]any)
	var errs []error
	for _, name := range sortedKeys(all) {
		if _, ok := settingNamed(name); !ok && !strings.ContainsAny(name, ":/") && !slices.Contains(cdkSettings, name) {
			errs = append(errs, fmt.Errorf("-c %s: %w", name, unknownSettingError(name)))
		}
	}
	return errors.Join(errs...)
}

// cdkSettings are those settings of the CDK that have neither a colon nor a slash in their names.
var cdkSettings = []string{"tree-metadata"}
