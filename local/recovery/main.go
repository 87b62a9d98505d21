// Command recovery restores an installation in AWS of what DynamoDB and S3 have kept of it: a
// table as it was at a moment, or of a backup, beside the one that was lost or spoilt, with its stream and all
// that a restored table comes without, and the objects that were in the bucket at that moment.
// `make restore-aws` runs it, once before the stack is deployed with the restored table, and
// once after.
//
// Each step looks at what is there and does what is missing, so that the same command goes on
// after a failure or a kill. It keeps no notes of its own: what it has to remember are tags of
// the functions and of the table. It deletes nothing but markers of deletion in the bucket and, if
// it is told so, keys that had been revoked.
//
// `make stop-aws` and `make start-aws` run it too: they stop all of an installation, for an export or an import, and open it again.
//
// What it is not: for data directories, which package backup restores, or a way to another
// region, which are export-data and import-data (docs/aws.md). It deploys nothing itself.
//
// Read main.go first, then plan.go for what is refused, steps.go for the order; fence.go, table.go, objects.go,
// revived.go and after.go are the steps; stop.go has what stops and starts. docs/decisions/0063-a-restored-table-is-adopted-by-its-stream.md
// says why so.
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

	"github.com/gatewright/gatewright/shared/cloud/signin"
	"github.com/gatewright/gatewright/shared/config"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command(ctx, os.Args[1:], os.Getenv, console{os.Stdin, os.Stdout, os.Stderr}); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", typed(os.Args[1:]), err)
		os.Exit(1)
	}
}

// typed is the target of make that has called the command.
func typed(args []string) string {
	switch {
	case slices.Contains(args, "-stop"):
		return "stop-aws"
	case slices.Contains(args, "-start"):
		return "start-aws"
	}
	return "restore-aws"
}

// console is whom the command speaks to.
type console struct {
	in          io.Reader
	out, errors io.Writer
}

// say tells how far the work is.
func (c console) say(format string, args ...any) { _, _ = fmt.Fprintf(c.errors, format+"\n", args...) }

// request is what is asked for.
type request struct {
	stage string
	// at is the moment, zero for the one of the backup; latest is the latest that there is.
	at     time.Time
	latest bool
	// backup is the ARN of one, "" for point-in-time recovery.
	backup string
	// as is the restored table's name, "" for one made of the stage and the moment.
	as string
	// revived says what is done with credentials that had ended since the moment: keep or revoke.
	revived string
	// gatewayToo stops the gateway as well while the table is restored.
	gatewayToo bool
	// dryRun shows the plan alone; agreed asks nobody; lift opens again what a restore that is given up has closed.
	dryRun, agreed, lift bool
	// stop stops all of the installation, and start opens that again, without any restore.
	stop, start bool
	// poll is how often is looked whether AWS is done.
	poll time.Duration
}

// What revived may be.
const (
	keep   = "keep"
	revoke = "revoke"
)

const latest = "latest"

var tablePattern = regexp.MustCompile(`^[A-Za-z0-9_.-]{3,255}$`)

func command(ctx context.Context, args []string, getenv func(string) string, c console) error {
	r, err := requestOf(args)
	if err != nil {
		return err
	}
	env, err := signin.Environment(ctx, getenv, signin.CommandLine)
	if err != nil {
		return err
	}
	a, err := open(env)
	if err != nil {
		return err
	}
	w := &work{request: r, installed: a, console: c, now: time.Now}
	return w.run(ctx)
}

// requestOf reads the words of a command. Its error is one line.
func requestOf(args []string) (r request, err error) {
	var at, poll string
	f := flag.NewFlagSet("recovery", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.StringVar(&r.stage, "stage", "", "the installation's name")
	f.StringVar(&at, "at", "", "the moment, such as 2026-11-25T14:02:00Z, or latest")
	f.StringVar(&r.backup, "backup", "", "the ARN of a backup in DynamoDB, in place of a moment")
	f.StringVar(&r.as, "as", "", "the restored table's name")
	f.StringVar(&r.revived, "revived", "", "keep or revoke: what is done with credentials that had ended since")
	f.BoolVar(&r.gatewayToo, "gateway-too", false, "stop the gateway as well meanwhile")
	f.BoolVar(&r.dryRun, "dry-run", false, "show the plan, and change nothing")
	f.BoolVar(&r.agreed, "yes", false, "ask nobody")
	f.BoolVar(&r.lift, "lift", false, "give a restore up: open again what it has closed")
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
		return r, errors.New("name the installation: STAGE=, which " + config.StageIs)
	case (r.stop || r.start) && (r.stop && r.start || at != "" || r.backup != "" || r.as != "" || r.revived != "" || r.gatewayToo || r.lift):
		return r, errors.New("-stop and -start are for all of an installation, and take no other word than -stage, -yes and -dry-run")
	case r.revived != "" && r.revived != keep && r.revived != revoke:
		return r, fmt.Errorf("REVIVED= is %s or %s", keep, revoke)
	case r.as != "" && !tablePattern.MatchString(r.as):
		return r, errors.New("AS= is the name of a table, with 3 to 255 letters, digits, dots, hyphens and underscores")
	case at != "" && r.backup != "":
		return r, errors.New("give AT= or BACKUP=: a backup is of its own moment")
	case at == latest && r.as == "":
		return r, errors.New("AT=latest is another moment each time: name the restored table by AS=, so that the same command goes on with it")
	case at == latest:
		r.latest = true
	case at != "":
		if r.at, err = time.Parse(time.RFC3339, at); err != nil {
			return r, errors.New("AT= is a moment such as 2026-11-25T14:02:00Z, or latest")
		}
		r.at = r.at.UTC().Truncate(time.Second) // as DynamoDB knows it
	}
	return r, nil
}

// agree asks whether the work may begin.
func (c console) agree(what string) error {
	_, _ = fmt.Fprint(c.errors, what)
	line, err := bufio.NewReader(c.in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read the answer: %w", err)
	}
	if strings.TrimSpace(line) != "yes" {
		return errors.New("not agreed, and nothing was changed: answer yes, or give YES=1 where nobody can answer")
	}
	return nil
}
