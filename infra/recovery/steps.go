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

	"github.com/gatewright/gatewright/shared/base/ids"
	"github.com/gatewright/gatewright/shared/core/blob"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/seal"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/rootkey"
)

// work is one run of the command.
type work struct {
	request
	clients
	console
	now func() time.Time
	// scan visits the items of a table in tests. If it is nil, the items are read from DynamoDB.
	scan func(ctx context.Context, table string, visit func(store.Item) error) error
	// openInstallation returns the installation that uses a table in tests. If it is nil, the installation is the one in
	// AWS.
	openInstallation func(table string) installation.Parts
	// versions has the versions of objects in tests. If it is nil, they are in S3.
	versions versionedBucket
}

// eachItem calls visit with each item of a table, except expired items.
func (w *work) eachItem(ctx context.Context, table string, visit func(store.Item) error) error {
	now := w.now()
	visitCurrent := func(item store.Item) error {
		if store.Expired(item, now) {
			return nil
		}
		return visit(item)
	}
	if w.scan != nil {
		return w.scan(ctx, table, visitCurrent)
	}
	return store.EachItem(ctx, w.items, table, nil, visitCurrent)
}

// run does the requested work: the missing steps of a restore, or stop, start or abandon. Its error is one line. After
// an error, the same command continues with the first incomplete step.
func (w *work) run(ctx context.Context) error {
	switch {
	case w.stop, w.start:
		return w.stopOrStart(ctx)
	case w.abandon:
		s, err := w.stackOf(ctx, w.stage)
		if err != nil {
			return err
		}
		return w.abandonRestore(ctx, s)
	}
	p, err := w.newPlan(ctx)
	if err != nil {
		return err
	}
	w.logPlan(p)
	if w.dryRun {
		w.logf("nothing was changed")
		return nil
	}
	if !w.confirmed {
		if err := w.confirm("Shall this be done? Answer yes:\n"); err != nil {
			return err
		}
	}
	if p.deployed {
		return w.finishRestore(ctx, p)
	}
	return w.beginRestore(ctx, p)
}

// abandonRestore abandons a restore: it starts the functions that the restore has stopped, and restores the artifacts
// of the table that the stack uses.
func (w *work) abandonRestore(ctx context.Context, s stack) error {
	n, err := w.startFunctions(ctx, s, restoreTag)
	if err != nil {
		return err
	}
	w.logf("%d functions that a restore had stopped are open again; tables are as they were", n)
	return w.restoreStackArtifacts(ctx, s)
}

// beginRestore does the first part of a restore: everything before the stack is deployed with the restored table.
func (w *work) beginRestore(ctx context.Context, p plan) error {
	if err := w.protectSource(ctx, p); err != nil {
		return err
	}
	if err := w.stopFunctions(ctx, w.functionsToStop(p.stack), restoreTag); err != nil {
		return err
	}
	if err := w.startTableRestore(ctx, p); err != nil {
		return err
	}
	d, err := w.configureTable(ctx, p)
	if err != nil {
		return err
	}
	parts := w.parts(p.stack, p.target)
	// Without the root key the restored table is useless.
	if err := w.checkRootKey(ctx, p); err != nil {
		return err
	}
	restored, err := w.survey(ctx, p.target)
	if err != nil {
		return err
	}
	w.logf("the table %s holds %d items of %d accounts", p.target, restored.items, len(restored.accounts))
	from, to := p.span(d)
	present, objects, err := w.restoreDeletedObjects(ctx, p.stack.bucket, from, to, restored.objectKeys())
	if err != nil {
		return err
	}
	w.logf("%d objects that were deleted since came back", objects.count)
	if err := w.restoreArtifacts(ctx, parts, p.stack.bucket, objects, present); err != nil {
		return err
	}
	w.reportLost(restored, present)
	if err := w.handleRevived(ctx, p, restored, to); err != nil {
		return err
	}
	_, err = fmt.Fprintf(w.out, "Deploy with the restored table now, and run this command again then. The stage's file "+
		"says, for as long as the installation has this table,\n"+
		"  \"tableStream\": \"%s\"\nand the deployment this once REMOVE=Table CONTEXT='-c canary=false', since alarms of "+
		"what is stopped are on.\n", aws.ToString(d.LatestStreamArn))
	return err
}

// reportLost reports the builds of the restored table whose artifacts the bucket no longer has, and what to do about
// each.
func (w *work) reportLost(restored survey, present map[string]bool) {
	for _, name := range sortedKeys(restored.builds) {
		for i, b := range restored.builds[name] {
			artifact, source := present[blob.ArtifactKey(b.Artifact)], present[blob.SourceKey(b.Source)]
			var remedy string
			switch {
			case artifact:
				continue // the build exists
			case i > 0:
				remedy = "an earlier build is lost, and cannot be returned to"
			case source:
				remedy = "its artifact is lost: POST /v1/deployments/" + name + "/deploy builds it again from its source"
			default:
				remedy = "its artifact and its source are lost: upload the project again"
			}
			_, _ = fmt.Fprintf(w.out, "deployment %s: %s (build %s)\n", name, remedy, b.BuildID)
		}
	}
}

func sortedKeys[V any](m map[string]V) (names []string) {
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// parts returns the installation that uses a table, with the parts that are needed to compare, revoke and verify.
func (w *work) parts(s stack, tableName string) installation.Parts {
	if w.openInstallation != nil {
		return w.openInstallation(tableName)
	}
	table := store.New(store.NewDynamoDB(w.items, tableName), store.Options{Random: rand.Reader, Now: w.now})
	return installation.Parts{
		Table: table, Key: rootkey.New(w.kms, s.key, table, w.now), Random: rand.Reader, Now: w.now,
		IDs: ids.NewSource(rand.Reader, w.now), Log: slog.New(slog.DiscardHandler),
	}
}

// ringSource has the root keys of a table. *rootkey.Source implements it.
type ringSource interface {
	// Existing returns the root keys. It never creates one.
	Existing(ctx context.Context) (*seal.Ring, error)
}

// rootKeysOf returns the root keys of an installation: two during a rotation. The error is rootkey.ErrNoRootKey if it
// has none.
func rootKeysOf(ctx context.Context, p installation.Parts) (*seal.Ring, error) {
	source, ok := p.Key.(ringSource)
	if !ok {
		return nil, rootkey.ErrNoRootKey
	}
	return source.Existing(ctx)
}

// checkRootKey checks that the root key of the plan's target can be unwrapped. During a rotation of the root key, it
// checks both root keys. A table without a root key is not an error.
func (w *work) checkRootKey(ctx context.Context, p plan) error {
	ring, err := rootKeysOf(ctx, w.parts(p.stack, p.target))
	switch c := errorCode(err); {
	case errors.Is(err, rootkey.ErrNoRootKey):
		w.logf("the table has no root key yet: nothing was ever sealed")
		return nil
	case c == "IncorrectKeyException" || c == "InvalidCiphertextException":
		return fmt.Errorf("the root key of %s is wrapped by another KMS key than %s in %s: where that was the "+
			"installation's then, have this one wrap it too (rewrap-root-key --table %s --kms-key THEN --to %s) and run "+
			"this again; "+
			"a table of another region, or of another installation, is moved by export-data (docs/aws.md, \"Move to "+
			"another region\")",
			p.target, p.stack.key, w.region, p.target, p.stack.key)
	case err != nil:
		return fmt.Errorf("open the root key of %s: %w", p.target, err)
	}
	if w.logf("its root key opens"); ring.Rotating() {
		w.logf("it is being rotated, which goes on when the installation is open")
	}
	return nil
}
