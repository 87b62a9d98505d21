package dev

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/gatewright/gatewright/client/output"
	"github.com/gatewright/gatewright/client/report"
	"github.com/gatewright/gatewright/shared/dataplane/gateway"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/handler"
	"github.com/gatewright/gatewright/shared/format/project"
)

// The watcher polls the folder, and does not use the file notifications of the system. Polling detects every save, also
// one by renaming, by a checkout, over a network, and in a container. Examining the few files of a project takes less
// time than serving a request.
const (
	// pollInterval is the polling interval.
	pollInterval = 50 * time.Millisecond
	// settleTime is the time without a change after which the files are read: several files can belong to one save.
	settleTime = 40 * time.Millisecond
	// maxSettleTime is the maximum time until the files are read, if they change all the time.
	maxSettleTime = 250 * time.Millisecond
	// timestampResolution is the resolution of the coarsest clocks of file systems. A second change of a file within this
	// time may not change its modification time and size. So the files are read again when this time is over.
	timestampResolution = time.Second
)

// watcher builds a new version after each change of the files.
type watcher struct {
	*server

	// fingerprint is the fingerprint of the files when they were last read (source.fingerprint).
	fingerprint string
	// contents has the contents that were last read, with or without errors, nil before the first read.
	contents *contents
	// rereadAt is the time after which the files are read again even if the fingerprint has not changed, zero for never.
	rereadAt time.Time
	// failed says that the last version had errors. warnings are the warnings that were last shown.
	failed   bool
	warnings []project.Problem
}

// newWatcher returns a watcher after it has tried to build the folder's first version. The caller calls run.
func (s *server) newWatcher(ctx context.Context) *watcher {
	w := &watcher{server: s}
	fingerprint, newest := s.files.fingerprint()
	w.fingerprint = fingerprint
	w.build(ctx, newest)
	return w
}

// run builds a version after each save, until ctx ends.
func (w *watcher) run(ctx context.Context) {
	for sleep(ctx, pollInterval) {
		fingerprint, newest := w.files.fingerprint()
		if reread := !w.rereadAt.IsZero() && time.Now().After(w.rereadAt); fingerprint == w.fingerprint && !reread {
			continue
		}
		if fingerprint != w.fingerprint {
			w.fingerprint, newest = w.waitUntilSettled(ctx, fingerprint, newest)
		}
		w.build(ctx, newest)
	}
}

// waitUntilSettled waits until no file changes for settleTime, but at most for maxSettleTime. It returns the last
// fingerprint, and the modification time of the newest file.
func (w *watcher) waitUntilSettled(ctx context.Context, fingerprint string, newest time.Time) (string, time.Time) {
	for start := time.Now(); time.Since(start) < maxSettleTime && sleep(ctx, settleTime); {
		next, nextNewest := w.files.fingerprint()
		if next == fingerprint {
			break
		}
		fingerprint, newest = next, nextNewest
	}
	return fingerprint, newest
}

// sleep waits for d or until ctx ends. It returns false if ctx has ended.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// build reads the files. If their contents have changed, build compiles them, and serves the version if it has no
// errors. newest is the modification time of the newest file.
func (w *watcher) build(ctx context.Context, newest time.Time) {
	start := time.Now()
	w.rereadAt = time.Time{}
	if start.Sub(newest) < timestampResolution {
		w.rereadAt = start.Add(timestampResolution)
	}
	c, err := w.files.read(ctx)
	if err != nil { // a file has changed during the read, or ctx has ended
		w.rereadAt = start
		return
	}
	previous := w.contents
	if previous != nil && previous.equal(c) {
		return
	}
	w.contents = &c
	result, next := project.Result{Errors: c.problems}, (*version)(nil)
	if len(c.problems) == 0 {
		result, next, err = w.compile(ctx, c)
		w.files.references = result.References
	}
	switch {
	case ctx.Err() != nil:
		return
	case err != nil:
		result = project.Result{Errors: []project.Problem{{Message: err.Error()}}}
	}
	if next == nil {
		w.reportErrors(c, result.Errors)
		return
	}
	w.serve(previous, c, append(c.warnings, result.Warnings...), next, time.Since(start))
}

// equal reports whether c and other have the same content.
func (c *contents) equal(other contents) bool {
	return maps.EqualFunc(c.files, other.files, bytes.Equal) && maps.Equal(c.variables, other.variables) &&
		slices.Equal(c.problems, other.problems)
}

// compile compiles contents. It returns a nil version if they have errors.
func (s *server) compile(ctx context.Context, c contents) (project.Result, *version, error) {
	buildCtx, cancel := context.WithTimeoutCause(ctx, project.BuildTime,
		fmt.Errorf("the project takes longer than %s to compile, in which no build ends", project.BuildTime))
	defer cancel()
	a, result, err := s.compiler.Compile(buildCtx, c.files, project.Input{
		Identity: s.identity(), Variables: c.variables, Catalog: gateway.Catalog{}, Verify: gateway.Verify,
	})
	if err != nil || a == nil {
		return result, nil, err
	}
	if result.Errors = s.addCertificates(a); len(result.Errors) > 0 {
		project.Locate(c.files, result.Errors)
		return result, nil, nil
	}
	created, err := s.customers.addBuckets(a)
	if err != nil {
		s.messages.printf("warning: %v", err)
	}
	for _, e := range created {
		s.reportNewKey(e, err == nil)
	}
	return result, s.newVersion(a), nil
}

// addCertificates adds to an artifact the client certificates that its routes use. It returns a problem for each route
// whose certificate is missing.
func (s *server) addCertificates(a *project.Artifact) (problems []project.Problem) {
	for _, r := range a.Routes {
		name, option := handler.CertificateOption(r.Handler)
		if name == "" {
			continue
		}
		cert, ok := s.options.Certificates[name]
		if !ok {
			problems = append(problems, project.Problem{
				File: r.Source.File, Path: r.Source.Pointer + "/x-gateway-route/handler" + option,
				Message: fmt.Sprintf("This route shows its upstream the certificate %q, and none of that name is given: "+
					"--certificate NAME=CHAIN,KEY names the two files of one, in PEM.", name),
			})
			continue
		}
		if a.Certificates == nil {
			a.Certificates = map[string]project.ClientCertificate{}
		}
		a.Certificates[name] = cert
	}
	return problems
}

// reportNewKey reports that a consumer with a key was created. saved says that the keys were stored, if there is an
// Options.KeyFile.
func (s *server) reportNewKey(e keyEntry, saved bool) {
	bucket := "the bucket " + e.Bucket
	if e.Bucket == "" {
		bucket = "the project's own bucket"
	}
	if s.options.KeyFile != "" && saved {
		s.messages.printf("the consumer %s of %s has a key in %s", e.Consumer, bucket, s.options.KeyFile)
		return
	}
	s.messages.printf("the consumer %s of %s has the key %s until this ends (--key-file keeps keys)", e.Consumer, bucket,
		e.Key)
}

// reportErrors reports why a saved change is not served, and what is served instead of it.
func (w *watcher) reportErrors(c contents, errs []project.Problem) {
	w.failed = true
	w.writeProblems(c.files, errs, nil)
	consequence := "nothing is served until that is mended: requests are answered with status 503"
	if current := w.current.Load(); current != nil {
		consequence = fmt.Sprintf("what was saved at %s is still served", current.builtAt.Format(time.TimeOnly))
	} else {
		reason := unavailableDetail(errs)
		w.unavailableReason.Store(&reason)
	}
	w.messages.printf("%s: %s", pluralize(len(errs), "error"), consequence)
}

// serve makes next the current version, and reports it.
func (w *watcher) serve(
	previous *contents, c contents, warnings []project.Problem, next *version, elapsed time.Duration,
) {
	w.current.Store(next)
	if !slices.Equal(warnings, w.warnings) {
		w.writeProblems(c.files, nil, warnings)
		w.warnings = warnings
	}
	routes, elapsed := pluralize(next.routes, "route"), elapsed.Round(time.Millisecond)
	switch {
	case previous == nil:
		w.messages.printf("serving %s of %s at %s", routes, w.options.Folder, w.origin)
	case w.failed:
		w.messages.printf("mended: serving %s (%s)", routes, elapsed)
	default:
		w.messages.printf("%s: serving %s (%s)", changeSummary(*previous, c), routes, elapsed)
	}
	w.failed = false
}

// writeProblems writes problems with excerpts of the files.
func (s *server) writeProblems(files project.Files, errs, warnings []project.Problem) {
	r := report.Report{
		Errors: report.Sorted(errs), Warnings: report.Sorted(warnings), Source: report.FromFiles(files),
	}
	_ = r.Text(s.messages, s.options.ErrColor, false) // nobody reads a closed stderr
}

// position returns the position of a problem, followed by a colon and a space, or "" if the problem has no position.
func position(p project.Problem) string {
	switch {
	case p.File == "":
		return ""
	case p.Line == 0:
		return p.File + ": "
	}
	return fmt.Sprintf("%s:%d:%d: ", p.File, p.Line, p.Column)
}

// unavailableDetail returns the message for clients while no version without errors exists.
func unavailableDetail(errs []project.Problem) string {
	text := "The project can't be served. Mend it, and repeat the request."
	if len(errs) > 0 {
		text = "The project can't be served: " + output.Printable(position(errs[0])+errs[0].Message)
	}
	if n := len(errs) - 1; n > 0 {
		text += fmt.Sprintf(" And %s.", pluralize(n, "more error"))
	}
	return text
}

// changeSummary describes a save: the only file that has changed, the number of changed files, or that only variables
// have changed.
func changeSummary(before, after contents) string {
	var names []string
	for name, data := range after.files {
		if old, ok := before.files[name]; !ok || !bytes.Equal(old, data) {
			names = append(names, name+" has changed")
		}
	}
	for name := range before.files {
		if _, ok := after.files[name]; !ok {
			names = append(names, name+" is gone")
		}
	}
	switch len(names) {
	case 0:
		return "variables have changed"
	case 1:
		return names[0]
	}
	return fmt.Sprintf("%d files have changed", len(names))
}

func pluralize(n int, unit string) string {
	if n == 1 {
		return "1 " + unit
	}
	return fmt.Sprintf("%d %ss", n, unit)
}
