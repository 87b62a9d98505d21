// Command recovery restores an installation in AWS from the copies that DynamoDB and S3 keep. It restores the table as
// it was at a moment, or from a backup, to a new table next to the lost or corrupted one. It sets the stream and the
// other settings that a restored table lacks. It also restores the objects that were in the bucket at that moment.
// `make restore-aws` runs it: once before the stack is deployed with the restored table, and once afterwards.
//
// Each step checks the current state and does only the missing work, so that the same command continues after a failure
// or an interruption. It keeps its state in tags of the functions and of the table. It deletes no data except delete
// markers in the bucket. On request, it also revokes again the keys and the tunnel tokens that were revoked after the
// restored moment.
//
// `make stop-aws` and `make start-aws` run this command too: they stop a whole installation for an export or an import,
// and start it again.
//
// It does not restore data directories: package backup does that. It does not move an installation to another region:
// export-data and import-data do that (docs/aws.md). It does not deploy anything itself.
//
// Read main.go first, then plan.go, which checks the preconditions, and steps.go, which has the order.
// concurrency.go, table.go, objects.go, versions.go, revoked.go and finish.go are the steps. clients.go reads the
// stack, survey.go reads a whole table, and stop.go stops and starts an installation.
// docs/decisions/0063-a-restored-table-is-adopted-by-its-stream.md has the reasons.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/gatewright/gatewright/shared/core/config"
	"github.com/gatewright/gatewright/shared/runtime/cloud/signin"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command(ctx, os.Args[1:], os.Getenv, console{os.Stdin, os.Stdout, os.Stderr}); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", makeTarget(os.Args[1:]), err)
		os.Exit(1)
	}
}

// makeTarget returns the make target that calls the command with these arguments, for messages.
func makeTarget(args []string) string {
	switch {
	case slices.Contains(args, "-stop"):
		return "stop-aws"
	case slices.Contains(args, "-start"):
		return "start-aws"
	}
	return "restore-aws"
}

// console has the streams of the command.
type console struct {
	in          io.Reader
	out, errors io.Writer
}

// logf reports progress on the error stream.
func (c console) logf(format string, args ...any) { _, _ = fmt.Fprintf(c.errors, format+"\n", args...) }

// request has the command line's options.
type request struct {
	stage string
	// at is the moment to restore, or zero if the arguments have none: a backup has its own moment. latest selects the
	// latest possible moment instead.
	at     time.Time
	latest bool
	// backup is the ARN of a backup, or "" if the arguments have none. Without a moment and a backup, a deleted table is
	// restored from the backup that DynamoDB made when the table was deleted.
	backup string
	// targetName is the restored table's name. If it is "", the name is derived from the stage and the moment.
	targetName string
	// revivedPolicy says what to do with credentials that were revoked or deleted since the moment, and are valid again
	// in the restored table: keep or revoke. It is "" if the operator has not decided yet.
	revivedPolicy string
	// gatewayToo says that the restore also stops the gateway's function.
	gatewayToo bool
	// dryRun only shows the plan. confirmed skips the confirmation. abandon ends an incomplete restore (abandonRestore).
	dryRun, confirmed, abandon bool
	// stop stops the whole installation, and start starts it again, without a restore.
	stop, start bool
	// poll is the interval at which the state of AWS is polled.
	poll time.Duration
}

// These are the values of revivedPolicy.
const (
	keep   = "keep"
	revoke = "revoke"
)

// latest is the value of -at for the latest possible moment.
const latest = "latest"

// tablePattern matches the names that DynamoDB allows for a table.
var tablePattern = regexp.MustCompile(`^[A-Za-z0-9_.-]{3,255}$`)

// command parses the arguments, connects to AWS and does the requested work.
func command(ctx context.Context, args []string, getenv func(string) string, c console) error {
	r, err := parseRequest(args)
	if err != nil {
		return err
	}
	env, err := signin.Environment(ctx, getenv, signin.CommandLine)
	if err != nil {
		return err
	}
	a, err := newClients(env)
	if err != nil {
		return err
	}
	w := &work{request: r, clients: a, console: c, now: time.Now}
	return w.run(ctx)
}

// parseRequest parses the arguments. Its error is one line.
func parseRequest(args []string) (r request, err error) {
	var at, poll string
	f := flag.NewFlagSet("recovery", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.StringVar(&r.stage, "stage", "", "the installation's name")
	f.StringVar(&at, "at", "", "the moment, such as 2026-11-25T14:02:00Z, or latest")
	f.StringVar(&r.backup, "backup", "", "the ARN of a backup in DynamoDB, in place of a moment")
	f.StringVar(&r.targetName, "as", "", "the restored table's name")
	f.StringVar(&r.revivedPolicy, "revived", "", "keep or revoke: what is done with credentials that had ended since")
	f.BoolVar(&r.gatewayToo, "gateway-too", false, "stop the gateway as well meanwhile")
	f.BoolVar(&r.dryRun, "dry-run", false, "show the plan, and change nothing")
	f.BoolVar(&r.confirmed, "yes", false, "ask nobody")
	f.BoolVar(&r.abandon, "lift", false, "give a restore up: open again what it has closed")
	f.BoolVar(&r.stop, "stop", false, "stop all of the installation, and restore nothing")
	f.BoolVar(&r.start, "start", false, "open what -stop has stopped")
	f.StringVar(&poll, "poll", "10s", "how often AWS is asked whether it is done")
	if err := f.Parse(args); err != nil {
		return r, err
	}
	if r.poll, err = time.ParseDuration(poll); err != nil || r.poll <= 0 {
		return r, errors.New("-poll is a duration such as 10s")
	}
	switch {
	case f.NArg() > 0:
		return r, fmt.Errorf("nobody knows the word %q: everything has a name, such as -stage dev", f.Arg(0))
	case !config.IsStage(r.stage):
		return r, errors.New("name the installation: STAGE=, which " + config.StageDescription)
	case (r.stop || r.start) && (r.stop && r.start || at != "" || r.backup != "" || r.targetName != "" ||
		r.revivedPolicy != "" || r.gatewayToo || r.abandon):
		return r, errors.New("-stop and -start are for all of an installation, and take no other word than -stage, -yes " +
			"and -dry-run")
	case r.revivedPolicy != "" && r.revivedPolicy != keep && r.revivedPolicy != revoke:
		return r, fmt.Errorf("REVIVED= is %s or %s", keep, revoke)
	case r.targetName != "" && !tablePattern.MatchString(r.targetName):
		return r, errors.New("AS= is the name of a table, with 3 to 255 letters, digits, dots, hyphens and underscores")
	case at != "" && r.backup != "":
		return r, errors.New("give AT= or BACKUP=: a backup is of its own moment")
	case at == latest && r.targetName == "":
		return r, errors.New("AT=latest is another moment each time: name the restored table by AS=, so that the same " +
			"command goes on with it")
	case at == latest:
		r.latest = true
	case at != "":
		if r.at, err = time.Parse(time.RFC3339, at); err != nil {
			return r, errors.New("AT= is a moment such as 2026-11-25T14:02:00Z, or latest")
		}
		r.at = r.at.UTC().Truncate(time.Second) // DynamoDB's precision
	}
	return r, nil
}

// confirm prompts for a confirmation. It returns an error for any other input than yes.
func (c console) confirm(prompt string) error {
	_, _ = fmt.Fprint(c.errors, prompt)
	line, err := bufio.NewReader(c.in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read the answer: %w", err)
	}
	if strings.TrimSpace(line) != "yes" {
		return errors.New("not agreed, and nothing was changed: answer yes, or give YES=1 where nobody can answer")
	}
	return nil
}
