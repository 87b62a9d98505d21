package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/gatewright/gatewright/shared/blob"
	"github.com/gatewright/gatewright/shared/ids"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/seal"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/rootkey"
)

// work is one call of the command.
type work struct {
	request
	installed
	console
	now func() time.Time
	// each visits the items of a table, nil for DynamoDB's.
	each func(ctx context.Context, table string, visit func(store.Item) error) error
	// over gives the installation over a table, nil for that in AWS.
	over func(table string) installation.Parts
	// versions are those of objects, nil for S3's.
	versions versioned
}

// eachItem visits the items of a table that have not expired.
func (w *work) eachItem(ctx context.Context, table string, visit func(store.Item) error) error {
	now := w.now()
	current := func(item store.Item) error {
		if store.Expired(item, now) {
			return nil
		}
		return visit(item)
	}
	if w.each != nil {
		return w.each(ctx, table, current)
	}
	return store.EachItem(ctx, w.items, table, nil, current)
}

// run does what is missing of a restore. An error is one line: what was done stays done, and the same command
// goes on from there.
func (w *work) run(ctx context.Context) error {
	switch {
	case w.stop, w.start:
		return w.stopOrStart(ctx)
	case w.lift:
		s, err := w.stackOf(ctx, w.stage)
		if err != nil {
			return err
		}
		return w.giveUp(ctx, s)
	}
	p, err := w.planOf(ctx)
	if err != nil {
		return err
	}
	w.tell(p)
	if w.dryRun {
		w.say("nothing was changed")
		return nil
	}
	if !w.agreed {
		if err := w.agree("Shall this be done? Answer yes:\n"); err != nil {
			return err
		}
	}
	if p.adopted {
		return w.after(ctx, p)
	}
	return w.before(ctx, p)
}

// giveUp opens what a restore has closed.
func (w *work) giveUp(ctx context.Context, s stack) error {
	n, err := w.open(ctx, s, closedTag)
	if err != nil {
		return err
	}
	w.say("%d functions that a restore had stopped are open again; tables are as they were", n)
	return w.takeBack(ctx, s)
}

// before is the work until the stack is deployed with the restored table.
func (w *work) before(ctx context.Context, p plan) error {
	if err := w.protect(ctx, p); err != nil {
		return err
	}
	if err := w.fence(ctx, w.closed(p.stack), closedTag); err != nil {
		return err
	}
	if err := w.restore(ctx, p); err != nil {
		return err
	}
	d, err := w.settle(ctx, p)
	if err != nil {
		return err
	}
	parts := w.parts(p.stack, p.target)
	// Nothing else is of use without it.
	if err := w.opens(ctx, p); err != nil {
		return err
	}
	restored, err := w.survey(ctx, p.target)
	if err != nil {
		return err
	}
	w.say("the table %s holds %d items of %d accounts", p.target, restored.items, len(restored.accounts))
	from, to := p.span(d)
	there, back, err := w.bringBack(ctx, p.stack.bucket, from, to, restored.objects())
	if err != nil {
		return err
	}
	w.say("%d objects that were deleted since came back", back.deleted)
	if err := w.matches(ctx, parts, p.stack.bucket, back, there); err != nil {
		return err
	}
	w.lost(restored, there)
	if err := w.settleRevived(ctx, p, restored, to); err != nil {
		return err
	}
	_, err = fmt.Fprintf(w.out, "Deploy with the restored table now, and run this command again then. The stage's file says, for as long as the installation has this table,\n"+
		"  \"tableStream\": \"%s\"\nand the deployment this once REMOVE=Table CONTEXT='-c canary=false', since alarms of what is stopped are on.\n", aws.ToString(d.LatestStreamArn))
	return err
}

// lost tells what the restored table names and nobody has any more, with the way back.
func (w *work) lost(restored survey, there map[string]bool) {
	for _, name := range sortedNames(restored.builds) {
		for i, b := range restored.builds[name] {
			artifact, source := there[blob.ArtifactKey(b.Artifact)], there[blob.SourceKey(b.Source)]
			var what string
			switch {
			case artifact:
				continue // what is served
			case i > 0:
				what = "an earlier build is lost, and cannot be returned to"
			case source:
				what = "its artifact is lost: POST /v1/deployments/" + name + "/deploy builds it again from its source"
			default:
				what = "its artifact and its source are lost: upload the project again"
			}
			_, _ = fmt.Fprintf(w.out, "deployment %s: %s (build %s)\n", name, what, b.BuildID)
		}
	}
}

func sortedNames[V any](m map[string]V) (names []string) {
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// parts are the installation over a table, as far as comparing, revoking and verifying need it.
func (w *work) parts(s stack, name string) installation.Parts {
	if w.over != nil {
		return w.over(name)
	}
	table := store.New(store.NewDynamoDB(w.items, name), store.Options{Random: rand.Reader, Now: w.now})
	return installation.Parts{
		Table: table, Key: rootkey.New(w.keys, s.key, table, w.now), Random: rand.Reader, Now: w.now,
		IDs: ids.NewSource(rand.Reader, w.now), Log: slog.New(slog.DiscardHandler),
	}
}

// rings are root keys of a table; *rootkey.Source are such.
type rings interface {
	// Existing gives them, and never makes one.
	Existing(ctx context.Context) (*seal.Ring, error)
}

// ringOf gives the root keys of a table, two while they were rotated, or rootkey.ErrNone.
func ringOf(ctx context.Context, p installation.Parts) (*seal.Ring, error) {
	its, ok := p.Key.(rings)
	if !ok {
		return nil, rootkey.ErrNone
	}
	return its.Existing(ctx)
}

// opens tries the root key of the restored table: both of them, where the moment is one of a rotation.
func (w *work) opens(ctx context.Context, p plan) error {
	ring, err := ringOf(ctx, w.parts(p.stack, p.target))
	switch c := code(err); {
	case errors.Is(err, rootkey.ErrNone):
		w.say("the table has no root key yet: nothing was ever sealed")
		return nil
	case c == "IncorrectKeyException" || c == "InvalidCiphertextException":
		return fmt.Errorf("the root key of %s is wrapped by another KMS key than %s in %s: where that was the installation's then, have this one wrap it too (rewrap-root-key --table %s --kms-key THEN --to %s) and run this again; "+
			"a table of another region, or of another installation, is moved by export-data (docs/aws.md, \"Move to another region\")",
			p.target, p.stack.key, w.region, p.target, p.stack.key)
	case err != nil:
		return fmt.Errorf("open the root key of %s: %w", p.target, err)
	}
	if w.say("its root key opens"); ring.Turning() {
		w.say("it is being rotated, which goes on when the installation is open")
	}
	return nil
}
