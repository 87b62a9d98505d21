// Command deploy deploys an installation for `make deploy`. It lets the CDK synthesize the templates, stops if the
// installation would lose something that its operator has not allowed (package removals), shows the difference, and
// requests a confirmation. It deploys exactly the changes that it shows, because the templates are synthesized only
// once.
//
// Package infra describes the installation. Read main.go first, then preflight.go, which checks the account before
// anything is created. alarms.go requires a recipient of alarms, and namesinuse.go finds names that are in use.
// regional.go checks the log role and the support of budgets in a region. check.go deploys the synthetic check in
// another region. failed.go prepares the repetition of a failed first deployment. aws.go connects to AWS.
package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/mattn/go-isatty"

	"github.com/gatewright/gatewright/infra/removals"
	"github.com/gatewright/gatewright/shared/runtime/cloud/signin"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err == nil {
		return
	}
	for line := range strings.Lines(err.Error()) {
		fmt.Fprintln(os.Stderr, "deploy:", strings.TrimSuffix(line, "\n"))
	}
	if errors.Is(err, errRefused) {
		os.Exit(2)
	}
	os.Exit(1)
}

// errRefused is the kind of error that means that nothing was deployed. The error's text says what to do.
var errRefused = errors.New("nothing was deployed")

// deployment has the options of a deployment and the tools that it uses.
type deployment struct {
	stage string
	// In the deployment of the synthetic check's stack (check.go), checkRegion is the region of the check. In the
	// deployment of the installation's stack, it is "".
	checkRegion string
	// allowedRemovals are the names of the removals that the operator allows (REMOVE).
	allowedRemovals []string
	// yes says that the deployment needs no confirmation. terminal says that the input is a terminal, where a user can
	// confirm.
	yes, terminal bool
	in            io.Reader
	out           io.Writer
	// app is the command that runs the CDK's app. synthArgs are additional arguments of cdk synth, such as -c waf=true.
	app       string
	synthArgs []string
	// output is the folder for the templates.
	output string
	// cdk runs the CDK's command line. uploadImages uploads the images of services.
	cdk          func(ctx context.Context, args ...string) error
	uploadImages func(ctx context.Context) error
	// connectAWS creates the clients for the account in a region. runAWS runs the AWS command line.
	connectAWS func(ctx context.Context, region string) (account, error)
	runAWS     signin.Run
	// region returns the installation's region.
	region func(ctx context.Context) (string, error)
	// consistencyDelay is how long a check waits before it verifies a finding again.
	consistencyDelay time.Duration
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("deploy", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	d := deployment{
		in: os.Stdin, out: os.Stdout, connectAWS: connect, runAWS: signin.CommandLine, region: region,
		consistencyDelay: consistencyDelay,
	}
	cdk := flags.String("cdk", "", "the CDK's command line")
	images := flags.String("images", "", "the command that uploads the images of services")
	remove := flags.String("remove", "", "what may go, by its names, with spaces between")
	yes := flags.String("yes", "", "1 to deploy without asking")
	destroy := flags.Bool("destroy", false, "delete the stacks instead")
	flags.StringVar(&d.stage, "stage", "", "the stage")
	flags.StringVar(&d.app, "app", "", "the CDK's app")
	flags.StringVar(&d.output, "output", "", "the folder for the templates")
	if err := flags.Parse(args); err != nil {
		return fmt.Errorf("read the arguments: %w", err)
	}
	if *yes != "" && *yes != "1" {
		return refuse("YES=%s is neither 1, to deploy without asking, nor left out", *yes)
	}
	d.yes, d.allowedRemovals = *yes == "1", strings.Fields(strings.ReplaceAll(*remove, ",", " "))
	d.synthArgs = flags.Args()
	d.terminal = isatty.IsTerminal(os.Stdin.Fd()) || isatty.IsCygwinTerminal(os.Stdin.Fd())
	d.cdk = func(ctx context.Context, args ...string) error {
		var in io.Reader
		if args[0] == "destroy" { // cdk destroy prompts for a confirmation
			in = os.Stdin
		}
		return command(ctx, in, append([]string{*cdk}, args...))
	}
	d.uploadImages = func(ctx context.Context) error { return command(ctx, nil, strings.Fields(*images)) }
	home, err := os.UserHomeDir()
	if err != nil {
		return fmt.Errorf("find the settings of the CDK: %w", err)
	}
	if err := checkProfile(os.Getenv, home); err != nil {
		return err
	}
	if *destroy {
		return d.destroy(ctx)
	}
	return d.deploy(ctx)
}

// refuse returns an error of the kind errRefused with a formatted message.
func refuse(format string, args ...any) error {
	return refusal(fmt.Sprintf(format, args...))
}

// refusal is an error of the kind errRefused with a message.
type refusal string

func (r refusal) Error() string        { return string(r) }
func (r refusal) Is(target error) bool { return target == errRefused }

// deploy deploys the installation. If it returns an error of the kind errRefused, nothing was deployed.
func (d deployment) deploy(ctx context.Context) error {
	if !d.yes && !d.terminal {
		return refuse("there is no terminal to ask at: look at make diff STAGE=%s, and say YES=1 to deploy "+
			"without being asked", d.stage)
	}
	targets, err := d.synthesize(ctx)
	if err != nil {
		return err
	}
	digest, err := d.templateDigest()
	if err != nil {
		return err
	}
	installation := targets[0]
	if err := d.checkRegions(ctx, installation.planned); err != nil {
		return err
	}
	if err := d.checkRemovals(ctx, targets); err != nil {
		return err
	}
	if err := d.checkAlarmRecipients(installation.shown, installation.planned); err != nil {
		return err
	}
	var findings []error
	for _, t := range targets {
		findings = append(findings, t.preflight(ctx, t.shown, t.planned))
	}
	if err := errors.Join(findings...); err != nil {
		return err
	}
	if err := d.showChanges(ctx, targets); err != nil {
		return fmt.Errorf("show the difference: %w", err)
	}
	if err := d.confirm(ctx); err != nil {
		return err
	}
	for _, t := range targets {
		if err := t.unprotect(ctx, t.shown.Failed); err != nil {
			return err
		}
	}
	if installation.planned.HasServices() {
		if err := d.uploadImages(ctx); err != nil {
			return fmt.Errorf("upload the images of services: %w", err)
		}
	}
	for _, t := range targets {
		if err := t.checkUnchanged(ctx, t.shown); err != nil {
			return err
		}
	}
	if now, err := d.templateDigest(); err != nil || now != digest {
		return errors.Join(err, refuse("the templates in %s are not those that were shown: another make diff, make deploy "+
			"or make destroy has written them; deploy again", d.output))
	}
	return d.apply(ctx, targets)
}

// synthesize lets the CDK synthesize the templates, and returns the installation's stack, and the check's stack if the
// installation has a check.
func (d deployment) synthesize(ctx context.Context) (targets []*target, err error) {
	if err := d.cdk(ctx, append([]string{"synth", "--quiet", "--app", d.app, "--output", d.output},
		d.synthArgs...)...); err != nil {
		return nil, fmt.Errorf("make the templates: %w", err)
	}
	targets = []*target{{deployment: d}}
	if targets[0].planned, err = removals.Planned(os.DirFS(d.output), d.stackName()); err != nil {
		return nil, err
	}
	region := targets[0].planned.CheckRegion()
	if region == "" {
		return targets, nil
	}
	check := &target{deployment: d.forCheck(region)}
	check.planned, err = removals.Planned(os.DirFS(d.output), check.stackName())
	return append(targets, check), err
}

// templateDigest returns a digest of the templates and the asset manifests in the output folder. The files to which
// these refer have a digest in their names.
func (d deployment) templateDigest() (string, error) {
	files, err := filepath.Glob(filepath.Join(d.output, "*.json"))
	if err != nil {
		return "", fmt.Errorf("list the templates: %w", err)
	}
	sum := sha256.New()
	for _, file := range files {
		text, err := os.ReadFile(file) //nolint:gosec // G304: of the output folder
		if err != nil {
			return "", fmt.Errorf("read the templates: %w", err)
		}
		_, _ = fmt.Fprintf(sum, "%q %d\n%s", filepath.Base(file), len(text), text)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// target is a stack that the deployment creates or updates: the stack of the installation or of its check.
type target struct {
	deployment
	// shown is the stack in AWS as it was read before the difference was shown. planned is the stack that the CDK has
	// synthesized.
	shown, planned removals.Stack
}

// apply deploys the stacks that were shown, first the installation's and then the check's: the check needs a key and
// the address of the installation. Before that, apply removes the check of the last deployment if the installation no
// longer has a check in that region.
func (d deployment) apply(ctx context.Context, targets []*target) error {
	if previousRegion := targets[0].shown.CheckRegion(); previousRegion != "" &&
		previousRegion != targets[0].planned.CheckRegion() {
		if err := d.forCheck(previousRegion).removeCheck(ctx, d); err != nil {
			return err
		}
	}
	for _, t := range targets {
		args := []string{"deploy", "--app", d.output, t.stackName(), "--exclusively", "--require-approval", "never"}
		if t.checkRegion != "" {
			checkArgs, err := t.prepareCheck(ctx, d, t.planned)
			if err != nil {
				//nolint:errorlint // a wrapped refusal would say that nothing was deployed
				return fmt.Errorf("the installation is deployed, and its check is not: %v", err)
			}
			args = append(args, checkArgs...)
		}
		if err := d.cdk(ctx, args...); err != nil {
			return fmt.Errorf("deploy %s: %w", t.stackName(), err)
		}
	}
	return nil
}

// stackName returns the name of the stack of the installation, or of the check in the deployment of the check.
func (d deployment) stackName() string {
	if d.checkRegion != "" {
		return removals.CheckStackName(d.stage)
	}
	return "gatewright-" + d.stage
}

// deployedStack returns the stack that AWS has now. If the stack's state prevents a deployment, the error is a refusal
// that says what to do.
func (d deployment) deployedStack(ctx context.Context) (removals.Stack, error) {
	currentRegion, err := d.region(ctx)
	if err != nil {
		return removals.Stack{}, err
	}
	account, err := d.connectAWS(ctx, currentRegion)
	if err != nil {
		return removals.Stack{}, err
	}
	deployed, err := removals.Deployed(ctx, account.stacks, d.stackName())
	switch {
	case errors.Is(err, removals.ErrBusy):
		return deployed, refusal(err.Error())
	case errors.Is(err, removals.ErrDeleteFailed):
		return deployed, refuse("%s: type aws cloudformation describe-stack-events --region %[3]s --stack-name %[2]s to "+
			"see why, remove the cause, and type aws cloudformation delete-stack --region %[3]s --stack-name %[2]s", err,
			d.stackName(), currentRegion)
	case errors.Is(err, removals.ErrPaused):
		return deployed, refuse("%s: type aws cloudformation describe-stack-events --region %[3]s --stack-name %[2]s to "+
			"see why, remove the cause, and type aws cloudformation continue-update-rollback --region %[3]s --stack-name "+
			"%[2]s for a stack that is UPDATE_ROLLBACK_FAILED, "+
			"or else aws cloudformation rollback-stack --region %[3]s --stack-name %[2]s", err, d.stackName(), currentRegion)
	}
	return deployed, err
}

// checkUnchanged returns an error if the stack differs from the stack that was shown: somebody else
// has deployed during the confirmation, and the new deployment would remove their changes.
func (d deployment) checkUnchanged(ctx context.Context, shown removals.Stack) error {
	now, err := d.deployedStack(ctx)
	if err != nil {
		return err
	}
	if now.Failed != nil && shown.Failed != nil {
		now.Failed.Protected = shown.Failed.Protected // this deployment itself has changed it
	}
	if !reflect.DeepEqual(now, shown) {
		return refuse("%s is another than the one that was shown: somebody has deployed meanwhile; look again", d.stackName())
	}
	return nil
}

// regionalSettings are the settings of a stage's file that name a resource in the installation's region. AWS would
// refuse the ARN of another region halfway through the deployment. arn returns the ARN from the properties of a
// resource, and advice says what to do about an ARN of another region.
var regionalSettings = []struct {
	setting, advice string
	arn             func(properties map[string]any) any
}{
	{"certificateArn", "ask ACM for one there", func(p map[string]any) any { return p["RegionalCertificateArn"] }},
	{"alarmTopic", "name a topic of SNS there, which alone hears alarms of the region", func(p map[string]any) any {
		actions, _ := p["AlarmActions"].([]any)
		return append(actions, nil)[0]
	}},
	{"tableStream", "restore the table there", func(p map[string]any) any { return p["EventSourceArn"] }},
}

// checkRegions returns an error if a setting names a resource of another region than the installation's, or if the
// check is in the installation's own region.
func (d deployment) checkRegions(ctx context.Context, planned removals.Stack) error {
	regions := map[string]string{} // regions of the named resources, by setting
	for _, template := range planned.Templates {
		for _, r := range template.Resources {
			for _, setting := range regionalSettings {
				arn, _ := setting.arn(r.Properties).(string)
				if parts := strings.Split(arn, ":"); len(parts) > regionOfARN {
					regions[setting.setting] = parts[regionOfARN]
				}
			}
		}
	}
	if len(regions) == 0 && planned.CheckRegion() == "" {
		return nil
	}
	currentRegion, err := d.region(ctx)
	if err != nil {
		return err
	}
	for _, setting := range regionalSettings {
		if region := regions[setting.setting]; region != "" && region != currentRegion {
			return refuse("%s is of %s, and the installation's region is %s: %s, or set AWS_REGION", setting.setting, region,
				currentRegion, setting.advice)
		}
	}
	if planned.CheckRegion() == currentRegion {
		return refuse("checkRegion is %s, the installation's own region: name another one in %s, which reports when this "+
			"one does not", currentRegion, path.Join("infra/stages", d.stage+".json"))
	}
	return nil
}

// regionOfARN is the index of the region in an ARN that is split at its colons.
const regionOfARN = 3

// showChanges shows what the deployment changes. If the installation does not exist yet, it shows a line with the
// region for each stack instead of a list of all resources. An operator who has named the wrong stage or region notices
// it in this line.
func (d deployment) showChanges(ctx context.Context, targets []*target) error {
	if len(targets[0].shown.Templates) > 0 {
		args := []string{"diff", "--app", d.output} // shows the differences of all stacks
		for _, t := range targets[1:] {
			// If the parameters cannot be read, the CDK compares only the templates, and reports that.
			if checkArgs, err := t.checkStackArgs(ctx, d, t.planned); err == nil {
				args = append(args, checkArgs...)
			}
		}
		return d.cdk(ctx, args...)
	}
	for _, t := range targets {
		if err := t.showNew(ctx); err != nil {
			return err
		}
	}
	return nil
}

// showNew describes a stack in one line, and in another line if its first deployment has failed. The stack of a check
// can exist even if the installation does not.
func (t target) showNew(ctx context.Context) error {
	currentRegion, err := t.region(ctx)
	if err != nil {
		return err
	}
	if t.shown.Failed != nil {
		if _, err := fmt.Fprintf(t.out, "The first deployment of %s has failed (%s). Its stack is deleted, and "+
			"created again.\n", t.stackName(), t.shown.Failed.Status); err != nil {
			return err
		}
	}
	count := 0
	for _, template := range t.planned.Templates {
		count += len(template.Resources)
	}
	if len(t.shown.Templates) > 0 { // the stack of a check whose installation was deleted
		_, err := fmt.Fprintf(t.out, "There is a %s in %s already: it is updated.\n", t.stackName(), currentRegion)
		return err
	}
	_, err = fmt.Fprintf(t.out, "There is no %s in %s yet: all of its %d resources are new, which make diff "+
		"STAGE=%s lists.\n", t.stackName(), currentRegion, count, t.stage)
	return err
}

// checkRemovals reads each stack in AWS, stores it in shown, and returns an error for removals that the operator has
// not allowed. It prints the allowed removals.
func (d deployment) checkRemovals(ctx context.Context, targets []*target) (err error) {
	var all []removals.Removal
	for _, t := range targets {
		if t.shown, err = t.deployedStack(ctx); err != nil {
			return err
		}
		all = append(all, removals.Diff(t.shown, t.planned)...)
	}
	if lines := removals.Refusals(all, d.allowedRemovals, path.Join("infra/stages", d.stage+".json")); len(lines) > 0 {
		return refusal(strings.Join(lines, "\n"))
	}
	for _, name := range d.allowedRemovals {
		if !slices.ContainsFunc(all, func(r removals.Removal) bool { return r.Name == name }) {
			_, _ = fmt.Fprintf(d.out, "REMOVE=%s names nothing that this deployment removes.\n", name)
		}
	}
	for _, r := range all {
		_, _ = fmt.Fprintf(d.out, "%s will be removed, as REMOVE=%s says.\n", r.Loss, r.Name)
	}
	return nil
}

// confirm requests a confirmation. It returns a refusal without one, also when ctx ends while it waits.
func (d deployment) confirm(ctx context.Context) error {
	if d.yes {
		return nil
	}
	currentRegion, err := d.region(ctx)
	if err != nil {
		return err
	}
	accountSuffix := ""
	if id, err := (preflight{runAWS: d.runAWS}).accountID(ctx); err == nil {
		accountSuffix = " of the AWS account " + id
	}
	_, _ = fmt.Fprintf(d.out, "Deploy this to %s in %s%s? Type yes: ", d.stackName(), currentRegion, accountSuffix)
	type line struct {
		text string
		err  error
	}
	input := make(chan line, 1)
	go func() {
		text, err := bufio.NewReader(d.in).ReadString('\n')
		input <- line{text, err}
	}()
	var reply line
	select {
	case <-ctx.Done():
		_, _ = fmt.Fprintln(d.out)
		return refuse("nothing was deployed: the command was ended before the answer")
	case reply = <-input:
	}
	if reply.err != nil && !errors.Is(reply.err, io.EOF) {
		return fmt.Errorf("read the answer: %w", reply.err)
	}
	if strings.TrimSpace(reply.text) != "yes" {
		return refuse("nothing was deployed: the answer was not yes")
	}
	return nil
}

// command runs a command with this process's output streams. When ctx ends, the command receives SIGTERM. in is its
// input, or nil.
func command(ctx context.Context, in io.Reader, args []string) error {
	if len(args) == 0 || args[0] == "" {
		return errors.New("no command is named for it")
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...) //nolint:gosec // G204: make's own commands
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, os.Stdout, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	return cmd.Run()
}
