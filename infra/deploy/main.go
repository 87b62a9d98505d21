// Command deploy deploys an installation, as `make deploy` does: it has the CDK make the templates, stops where the installation would lose what its owner has
// not said may go (package removals), shows the difference, and asks. What it shows is what it deploys: the templates are made once.
//
// What it is not: the description of an installation, which is package infra. Read main.go first, then preflight.go, which checks the account before anything
// is created, alarms.go, which requires that somebody hears of alarms, check.go, which deploys the synthetic check in another region, failed.go, which lets a
// failed first deployment be repeated, taken.go, which finds names that are in use, and aws.go, where AWS is asked.
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
	"github.com/gatewright/gatewright/shared/cloud/signin"
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

// errRefused is the kind of errors that say that nothing was deployed, and what to do.
var errRefused = errors.New("nothing was deployed")

// deployment is what is to be deployed, and by what.
type deployment struct {
	stage string
	// elsewhere is the region of the synthetic check, of the deployment of its stack; "" for that of the installation's (check.go).
	elsewhere string
	// wanted are the names of what may go.
	wanted []string
	// yes deploys without asking; terminal says that there is somebody to ask.
	yes, terminal bool
	in            io.Reader
	out           io.Writer
	// app is the CDK's app, and context the arguments that both are given.
	app     string
	context []string
	// output is the folder for the templates.
	output string
	// cdk and images run the CDK's command line, and upload the images of services.
	cdk    func(ctx context.Context, args ...string) error
	images func(ctx context.Context) error
	// aws connects to the account in a region, and ask runs the AWS command line.
	aws func(ctx context.Context, region string) (account, error)
	ask signin.Ask
	// region is the installation's.
	region func(ctx context.Context) (string, error)
	// settle is how long a check waits before it reads a finding a second time.
	settle time.Duration
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("deploy", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	d := deployment{in: os.Stdin, out: os.Stdout, aws: connect, ask: signin.CommandLine, region: region, settle: settle}
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
	d.yes, d.wanted, d.context = *yes == "1", strings.Fields(strings.ReplaceAll(*remove, ",", " ")), flags.Args()
	d.terminal = isatty.IsTerminal(os.Stdin.Fd()) || isatty.IsCygwinTerminal(os.Stdin.Fd())
	d.cdk = func(ctx context.Context, args ...string) error {
		var in io.Reader
		if args[0] == "destroy" { // it asks
			in = os.Stdin
		}
		return command(ctx, in, append([]string{*cdk}, args...))
	}
	d.images = func(ctx context.Context) error { return command(ctx, nil, strings.Fields(*images)) }
	home, err := os.UserHomeDir()
	if err != nil {
		return fmt.Errorf("find the settings of the CDK: %w", err)
	}
	if err := sameProfile(os.Getenv, home); err != nil {
		return err
	}
	if *destroy {
		return d.destroy(ctx)
	}
	return d.deploy(ctx)
}

func refuse(format string, args ...any) error {
	return refusal(fmt.Sprintf(format, args...))
}

// refusal is an error of the kind errRefused that says more.
type refusal string

func (r refusal) Error() string        { return string(r) }
func (r refusal) Is(target error) bool { return target == errRefused }

// deploy does it, or gives an error and has deployed nothing.
func (d deployment) deploy(ctx context.Context) error {
	if !d.yes && !d.terminal {
		return refuse("there is no terminal to ask at: look at make diff STAGE=%s, and say YES=1 to deploy without being asked", d.stage)
	}
	all, err := d.synthesize(ctx)
	if err != nil {
		return err
	}
	templates, err := d.templates()
	if err != nil {
		return err
	}
	installation := all[0]
	if err := d.inRegion(ctx, installation.planned); err != nil {
		return err
	}
	if err := d.guard(ctx, all); err != nil {
		return err
	}
	if err := d.heard(installation.shown, installation.planned); err != nil {
		return err
	}
	var findings []error
	for _, one := range all {
		findings = append(findings, one.preflight(ctx, one.shown, one.planned))
	}
	if err := errors.Join(findings...); err != nil {
		return err
	}
	if err := d.show(ctx, all); err != nil {
		return fmt.Errorf("show the difference: %w", err)
	}
	if err := d.confirm(ctx); err != nil {
		return err
	}
	for _, one := range all {
		if err := one.unprotect(ctx, one.shown.Failed); err != nil {
			return err
		}
	}
	if installation.planned.Serves() {
		if err := d.images(ctx); err != nil {
			return fmt.Errorf("upload the images of services: %w", err)
		}
	}
	for _, one := range all {
		if err := one.unchanged(ctx, one.shown); err != nil {
			return err
		}
	}
	if now, err := d.templates(); err != nil || now != templates {
		return errors.Join(err, refuse("the templates in %s are not those that were shown: another make diff, make deploy or make destroy has written them; deploy again", d.output))
	}
	return d.apply(ctx, all)
}

// synthesize has the CDK make the templates, and returns the stacks: that of the installation, and that of its check if it has one.
func (d deployment) synthesize(ctx context.Context) (all []*target, err error) {
	if err := d.cdk(ctx, append([]string{"synth", "--quiet", "--app", d.app, "--output", d.output}, d.context...)...); err != nil {
		return nil, fmt.Errorf("make the templates: %w", err)
	}
	all = []*target{{deployment: d}}
	if all[0].planned, err = removals.Planned(os.DirFS(d.output), d.stack()); err != nil {
		return nil, err
	}
	region := all[0].planned.CheckRegion()
	if region == "" {
		return all, nil
	}
	check := &target{deployment: d.there(region)}
	check.planned, err = removals.Planned(os.DirFS(d.output), check.stack())
	return append(all, check), err
}

// templates returns a digest of the templates and lists in the output folder. What they name has a digest in its name.
func (d deployment) templates() (string, error) {
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

// target is a stack that is deployed.
type target struct {
	deployment
	// shown is what AWS had when the difference was shown, and planned what the CDK has made.
	shown, planned removals.Stack
}

// apply deploys the stacks that were shown, one after the other: the check needs a key of the installation, and its address.
func (d deployment) apply(ctx context.Context, all []*target) error {
	if was := all[0].shown.CheckRegion(); was != "" && was != all[0].planned.CheckRegion() {
		if err := d.there(was).removeCheck(ctx, d); err != nil {
			return err
		}
	}
	for _, one := range all {
		args := []string{"deploy", "--app", d.output, one.stack(), "--exclusively", "--require-approval", "never"}
		if one.elsewhere != "" {
			more, err := one.prepareCheck(ctx, d, one.planned)
			if err != nil {
				return fmt.Errorf("the installation is deployed, and its check is not: %w", err)
			}
			args = append(args, more...)
		}
		if err := d.cdk(ctx, args...); err != nil {
			return fmt.Errorf("deploy %s: %w", one.stack(), err)
		}
	}
	return nil
}

func (d deployment) stack() string {
	if d.elsewhere != "" {
		return removals.CheckStack(d.stage)
	}
	return "gatewright-" + d.stage
}

// account is the account in the region of the deployment.
func (d deployment) account(ctx context.Context) (account, error) {
	here, err := d.region(ctx)
	if err != nil {
		return account{}, err
	}
	return d.aws(ctx, here)
}

// deployed is what AWS has now.
func (d deployment) deployed(ctx context.Context) (removals.Stack, error) {
	here, err := d.region(ctx)
	if err != nil {
		return removals.Stack{}, err
	}
	account, err := d.aws(ctx, here)
	if err != nil {
		return removals.Stack{}, err
	}
	deployed, err := removals.Deployed(ctx, account.stacks, d.stack())
	switch {
	case errors.Is(err, removals.ErrBusy):
		return deployed, refusal(err.Error())
	case errors.Is(err, removals.ErrUndeleted):
		return deployed, refuse("%s: type aws cloudformation describe-stack-events --region %[3]s --stack-name %[2]s to see why, remove the cause, and type aws cloudformation delete-stack --region %[3]s --stack-name %[2]s", err, d.stack(), here)
	case errors.Is(err, removals.ErrPaused):
		return deployed, refuse("%s: type aws cloudformation describe-stack-events --region %[3]s --stack-name %[2]s to see why, remove the cause, and type aws cloudformation continue-update-rollback --region %[3]s --stack-name %[2]s for a stack that is UPDATE_ROLLBACK_FAILED, "+
			"or else aws cloudformation rollback-stack --region %[3]s --stack-name %[2]s", err, d.stack(), here)
	}
	return deployed, err
}

// unchanged refuses to deploy over something else than what was shown: somebody else has deployed while this question waited for its answer, and
// what they have added would go.
func (d deployment) unchanged(ctx context.Context, shown removals.Stack) error {
	now, err := d.deployed(ctx)
	if err != nil {
		return err
	}
	if now.Failed != nil && shown.Failed != nil {
		now.Failed.Protected = shown.Failed.Protected // which this deployment has changed
	}
	if !reflect.DeepEqual(now, shown) {
		return refuse("%s is another than the one that was shown: somebody has deployed meanwhile; look again", d.stack())
	}
	return nil
}

// regional are the words of a stage's file that name something of the installation's own region, each with where a template has its ARN, and what to do
// about one of another region: AWS refuses it when half of the installation is made.
var regional = []struct {
	word, instead string
	arn           func(properties map[string]any) any
}{
	{"certificateArn", "ask ACM for one there", func(p map[string]any) any { return p["RegionalCertificateArn"] }},
	{"alarmTopic", "name a topic of SNS there, which alone hears alarms of the region", func(p map[string]any) any {
		told, _ := p["AlarmActions"].([]any)
		return append(told, nil)[0]
	}},
	{"tableStream", "restore the table there", func(p map[string]any) any { return p["EventSourceArn"] }},
}

// inRegion refuses what is of another region than the installation.
func (d deployment) inRegion(ctx context.Context, planned removals.Stack) error {
	there := map[string]string{} // regions, by the word
	for _, template := range planned.Templates {
		for _, r := range template.Resources {
			for _, of := range regional {
				arn, _ := of.arn(r.Properties).(string)
				if parts := strings.Split(arn, ":"); len(parts) > regionOfARN {
					there[of.word] = parts[regionOfARN]
				}
			}
		}
	}
	if len(there) == 0 && planned.CheckRegion() == "" {
		return nil
	}
	here, err := d.region(ctx)
	if err != nil {
		return err
	}
	for _, of := range regional {
		if region := there[of.word]; region != "" && region != here {
			return refuse("%s is of %s, and the installation's region is %s: %s, or set AWS_REGION", of.word, region, here, of.instead)
		}
	}
	if planned.CheckRegion() == here {
		return refuse("checkRegion is %s, the installation's own region: name another one in %s, which reports when this one does not", here, path.Join("infra/stages", d.stage+".json"))
	}
	return nil
}

// regionOfARN is the place of the region in an ARN.
const regionOfARN = 3

// show shows what the deployment changes. Of an installation that is not there yet all is new, which is said in a line with the region: who has named another
// stage or region than the one that they meant sees that at once, and not below a thousand lines of what would be made.
func (d deployment) show(ctx context.Context, all []*target) error {
	if len(all[0].shown.Templates) > 0 {
		args := []string{"diff", "--app", d.output} // of all stacks
		for _, one := range all[1:] {
			// If they cannot be read, the CDK compares the templates alone, and says so.
			if more, err := one.parametersOf(ctx, d, one.planned); err == nil {
				args = append(args, more...)
			}
		}
		return d.cdk(ctx, args...)
	}
	for _, one := range all {
		if err := one.showNew(ctx); err != nil {
			return err
		}
	}
	return nil
}

// showNew shows in a line a stack that does not exist yet.
func (d target) showNew(ctx context.Context) error {
	here, err := d.region(ctx)
	if err != nil {
		return err
	}
	if d.shown.Failed != nil {
		if _, err := fmt.Fprintf(d.out, "The first deployment of %s has failed (%s). Its stack is deleted, and created again.\n", d.stack(), d.shown.Failed.Status); err != nil {
			return err
		}
	}
	made := 0
	for _, template := range d.planned.Templates {
		made += len(template.Resources)
	}
	if len(d.shown.Templates) > 0 { // of a check whose installation was deleted
		_, err := fmt.Fprintf(d.out, "There is a %s in %s already: it is updated.\n", d.stack(), here)
		return err
	}
	_, err = fmt.Fprintf(d.out, "There is no %s in %s yet: all of its %d resources are new, which make diff STAGE=%s lists.\n", d.stack(), here, made, d.stage)
	return err
}

// guard reads what AWS has of each stack, and refuses what would remove more than is wanted.
func (d deployment) guard(ctx context.Context, targets []*target) (err error) {
	var all []removals.Removal
	for _, one := range targets {
		if one.shown, err = one.deployed(ctx); err != nil {
			return err
		}
		all = append(all, removals.Of(one.shown, one.planned)...)
	}
	if lines := removals.Refused(all, d.wanted, path.Join("infra/stages", d.stage+".json")); len(lines) > 0 {
		return refusal(strings.Join(lines, "\n"))
	}
	for _, name := range d.wanted {
		if !slices.ContainsFunc(all, func(r removals.Removal) bool { return r.Name == name }) {
			_, _ = fmt.Fprintf(d.out, "REMOVE=%s names nothing that this deployment removes.\n", name)
		}
	}
	for _, r := range all {
		_, _ = fmt.Fprintf(d.out, "%s will be removed, as REMOVE=%s says.\n", r.Lost, r.Name)
	}
	return nil
}

// confirm asks for a yes. It ends with its context, also while it waits for the answer.
func (d deployment) confirm(ctx context.Context) error {
	if d.yes {
		return nil
	}
	here, err := d.region(ctx)
	if err != nil {
		return err
	}
	of := ""
	if id, err := (preflight{ask: d.ask}).accountID(ctx); err == nil {
		of = " of the AWS account " + id
	}
	_, _ = fmt.Fprintf(d.out, "Deploy this to %s in %s%s? Type yes: ", d.stack(), here, of)
	type line struct {
		text string
		err  error
	}
	read := make(chan line, 1)
	go func() {
		text, err := bufio.NewReader(d.in).ReadString('\n')
		read <- line{text, err}
	}()
	var answer line
	select {
	case <-ctx.Done():
		_, _ = fmt.Fprintln(d.out)
		return refuse("nothing was deployed: the command was ended before the answer")
	case answer = <-read:
	}
	if answer.err != nil && !errors.Is(answer.err, io.EOF) {
		return fmt.Errorf("read the answer: %w", answer.err)
	}
	if strings.TrimSpace(answer.text) != "yes" {
		return refuse("nothing was deployed: the answer was not yes")
	}
	return nil
}

// command runs a command that speaks to whoever runs this one, and ends before it. in is what it reads, nil for nothing.
func command(ctx context.Context, in io.Reader, words []string) error {
	if len(words) == 0 || words[0] == "" {
		return errors.New("no command is named for it")
	}
	cmd := exec.CommandContext(ctx, words[0], words[1:]...) //nolint:gosec // G204: make's own commands
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, os.Stdout, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	return cmd.Run()
}
