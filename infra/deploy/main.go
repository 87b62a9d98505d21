// Command deploy deploys an installation, as `make deploy` does: it has the CDK make the templates, stops where the installation would lose what its owner has
// not said may go (package removals), shows the difference, and asks. What it shows is what it deploys: the templates are made once.
//
// What it is not: the description of an installation, which is package infra. Read main.go first, then preflight.go, which checks the account before anything
// is created, alarms.go, which requires that somebody hears of alarms, failed.go, which lets a failed first deployment be repeated, taken.go,
// which finds names that are in use, and aws.go, where AWS is asked.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path"
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
	// aws connects to the account, and ask runs the AWS command line.
	aws func(ctx context.Context) (account, error)
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
	d.cdk = func(ctx context.Context, args ...string) error { return command(ctx, append([]string{*cdk}, args...)) }
	d.images = func(ctx context.Context) error { return command(ctx, strings.Fields(*images)) }
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
	if err := d.cdk(ctx, append([]string{"synth", "--quiet", "--app", d.app, "--output", d.output}, d.context...)...); err != nil {
		return fmt.Errorf("make the templates: %w", err)
	}
	planned, err := removals.Planned(os.DirFS(d.output), d.stack())
	if err != nil {
		return err
	}
	if err := d.inRegion(ctx, planned); err != nil {
		return err
	}
	shown, err := d.guard(ctx, planned)
	if err != nil {
		return err
	}
	if err := d.heard(shown, planned); err != nil {
		return err
	}
	if err := d.preflight(ctx, shown, planned); err != nil {
		return err
	}
	if err := d.show(ctx, shown, planned); err != nil {
		return fmt.Errorf("show the difference: %w", err)
	}
	if err := d.confirm(); err != nil {
		return err
	}
	if err := d.unprotect(ctx, shown.Failed); err != nil {
		return err
	}
	if planned.Serves() {
		if err := d.images(ctx); err != nil {
			return fmt.Errorf("upload the images of services: %w", err)
		}
	}
	if err := d.unchanged(ctx, shown); err != nil {
		return err
	}
	if err := d.cdk(ctx, "deploy", "--app", d.output, "--all", "--require-approval", "never"); err != nil {
		return fmt.Errorf("deploy %s: %w", d.stack(), err)
	}
	return nil
}

func (d deployment) stack() string { return "gatewright-" + d.stage }

// deployed is what AWS has now.
func (d deployment) deployed(ctx context.Context) (removals.Stack, error) {
	account, err := d.aws(ctx)
	if err != nil {
		return removals.Stack{}, err
	}
	deployed, err := removals.Deployed(ctx, account.stacks, d.stack())
	switch {
	case errors.Is(err, removals.ErrBusy):
		return deployed, refusal(err.Error())
	case errors.Is(err, removals.ErrUndeleted):
		return deployed, refuse("%s: type aws cloudformation describe-stack-events --stack-name %[2]s to see why, remove the cause, and type aws cloudformation delete-stack --stack-name %[2]s", err, d.stack())
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
	if len(there) == 0 {
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
	return nil
}

// regionOfARN is the place of the region in an ARN.
const regionOfARN = 3

// show shows what the deployment changes. Of an installation that is not there yet all is new, which is said in a line with the region: who has named another
// stage or region than the one that they meant sees that at once, and not below a thousand lines of what would be made.
func (d deployment) show(ctx context.Context, deployed, planned removals.Stack) error {
	if len(deployed.Templates) > 0 {
		return d.cdk(ctx, "diff", "--app", d.output)
	}
	here, err := d.region(ctx)
	if err != nil {
		return err
	}
	if deployed.Failed != nil {
		if _, err := fmt.Fprintf(d.out, "The first deployment of %s has failed (%s). Its stack is deleted, and created again.\n", d.stack(), deployed.Failed.Status); err != nil {
			return err
		}
	}
	made := 0
	for _, template := range planned.Templates {
		made += len(template.Resources)
	}
	_, err = fmt.Fprintf(d.out, "There is no %s in %s yet: all of its %d resources are new, which make diff STAGE=%s lists.\n", d.stack(), here, made, d.stage)
	return err
}

// guard refuses what would remove more than is wanted, and gives what it has compared with.
func (d deployment) guard(ctx context.Context, planned removals.Stack) (removals.Stack, error) {
	deployed, err := d.deployed(ctx)
	if err != nil {
		return deployed, err
	}
	all := removals.Of(deployed, planned)
	if lines := removals.Refused(all, d.wanted, path.Join("infra/stages", d.stage+".json")); len(lines) > 0 {
		return deployed, refusal(strings.Join(lines, "\n"))
	}
	for _, name := range d.wanted {
		if !slices.ContainsFunc(all, func(r removals.Removal) bool { return r.Name == name }) {
			_, _ = fmt.Fprintf(d.out, "REMOVE=%s names nothing that this deployment removes.\n", name)
		}
	}
	for _, r := range all {
		_, _ = fmt.Fprintf(d.out, "%s will be removed, as REMOVE=%s says.\n", r.Lost, r.Name)
	}
	return deployed, nil
}

// confirm has somebody say yes.
func (d deployment) confirm() error {
	if d.yes {
		return nil
	}
	_, _ = fmt.Fprintf(d.out, "Deploy this to %s? Type yes: ", d.stack())
	answer, err := bufio.NewReader(d.in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read the answer: %w", err)
	}
	if strings.TrimSpace(answer) != "yes" {
		return refuse("nothing was deployed: the answer was not yes")
	}
	return nil
}

// command runs a command that speaks to whoever runs this one, and ends before it.
func command(ctx context.Context, words []string) error {
	if len(words) == 0 || words[0] == "" {
		return errors.New("no command is named for it")
	}
	cmd := exec.CommandContext(ctx, words[0], words[1:]...) //nolint:gosec // G204: make's own commands
	cmd.Stdin, cmd.Stdout, cmd.Stderr = nil, os.Stdout, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	return cmd.Run()
}
