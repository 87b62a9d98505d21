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
	fail(strangers(app.Node().GetAllContext(nil)), 1)
	settings, err := settingsOfStage(os.DirFS, func(name string) any { return app.Node().TryGetContext(&name) })
	if err == nil {
		err = settings.checkVectors()
	}
	declarations := declaredFunctions(settings)
	if err == nil {
		err = checkTriggers(declarations)
	}
	fail(err, 1)
	installation := newInstallation(app, settings, declarations, declaredServices(settings))
	newCheck(app, settings, installation)
	app.Synth(nil)
}

// fail ends the process where there is an error, a line for each thing that is wrong.
func fail(err error, code int) {
	if err == nil {
		return
	}
	for line := range strings.Lines(err.Error()) {
		fmt.Fprintln(os.Stderr, "infra:", strings.TrimSuffix(line, "\n"))
	}
	os.Exit(code)
}

// check reads the settings of a stage as a deployment does, from the arguments that it hands the CDK, and makes nothing of them: before
// anything is built that takes minutes.
func check(args []string) error {
	said := map[string]any{}
	flags := flag.NewFlagSet("check", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	word := func(text string) error {
		name, value, is := strings.Cut(text, "=")
		if !is {
			return fmt.Errorf("-c %s says no value: -c name=value", name)
		}
		said[name] = value
		return nil
	}
	for _, arg := range args {
		if strings.HasPrefix(arg, "-context") || strings.HasPrefix(arg, "--c=") || arg == "--c" {
			return fmt.Errorf("the CDK reads %s as other words: write -c name=value or --context name=value", shown(arg))
		}
	}
	flags.Func("c", "", word)
	flags.Func("context", "", word)
	if err := flags.Parse(args); err != nil {
		return fmt.Errorf("the context is words such as -c waf=true: %w", err)
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("the context is words such as -c waf=true, and no %q", flags.Arg(0))
	}
	if err := strangers(said); err != nil {
		return err
	}
	for _, name := range sortedKeys(said) {
		if w, _ := wordNamed(name); w.personal {
			return fmt.Errorf("-c %s is personal, and everybody on this machine sees the arguments of a command: say it in the stage's file alone", name)
		}
	}
	_, err := settingsOfStage(os.DirFS, func(name string) any { return said[name] })
	return err
}

// strangers refuses words of a context that nothing reads: a mistyped one would be taken for one that is not said. The CDK's
// own have a colon or a slash in them.
func strangers(context any) error {
	all, _ := context.(map[string]any)
	var wrong []error
	for _, name := range sortedKeys(all) {
		if _, is := wordNamed(name); !is && !strings.ContainsAny(name, ":/") && !slices.Contains(ofTheCDK, name) {
			wrong = append(wrong, fmt.Errorf("-c %s: %w", name, unknown(name)))
		}
	}
	return errors.Join(wrong...)
}

// ofTheCDK are words of its own without one.
var ofTheCDK = []string{"tree-metadata"}
