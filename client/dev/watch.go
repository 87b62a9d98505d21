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
	"github.com/gatewright/gatewright/shared/gateway"
	"github.com/gatewright/gatewright/shared/gateway/handler"
	"github.com/gatewright/gatewright/shared/project"
)

// The folder is looked at, and no system asked to tell of it: the few files of a project cost less than a request, and a look
// sees what is saved by renaming, by a checkout, over a network and into a container alike.
const (
	// lookEvery is how often the folder is looked at.
	lookEvery = 50 * time.Millisecond
	// quiet is for how long nothing may change before what was saved is read: many files are one save.
	quiet = 40 * time.Millisecond
	// longestQuiet bounds that, for a folder in which something changes all the time.
	longestQuiet = 250 * time.Millisecond
	// sameTime is how long after a change another one may have the same time and size, on coarse clocks: until
	// then what was read is compared once more.
	sameTime = time.Second
)

// watcher makes versions of what it has read.
type watcher struct {
	*server

	// seen is what the folder looked like when it was read.
	seen string
	// read is what the last version was made of, good or not, and is nil before the first.
	read *contents
	// again is when the files are to be read once more although nothing seems to have changed, zero for never.
	again time.Time
	// broken says that the last version was not good, warnings what was warned of last.
	broken   bool
	warnings []project.Problem
}

// begin makes the first version of the folder.
func (s *server) begin(ctx context.Context) *watcher {
	w := &watcher{server: s}
	now, newest := s.files.look()
	w.seen = now
	w.build(ctx, newest)
	return w
}

// run makes a version of each save until ctx ends.
func (w *watcher) run(ctx context.Context) {
	for sleep(ctx, lookEvery) {
		now, newest := w.files.look()
		if again := !w.again.IsZero() && time.Now().After(w.again); now == w.seen && !again {
			continue
		}
		if now != w.seen {
			w.seen, newest = w.settled(ctx, now, newest)
		}
		w.build(ctx, newest)
	}
}

// settled waits until nothing changes any more, and answers what the folder looks like then.
func (w *watcher) settled(ctx context.Context, now string, newest time.Time) (string, time.Time) {
	for begun := time.Now(); time.Since(begun) < longestQuiet && sleep(ctx, quiet); {
		next, changed := w.files.look()
		if next == now {
			break
		}
		now, newest = next, changed
	}
	return now, newest
}

// sleep reports whether ctx goes on.
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

// build reads the folder and makes a version of it, if it is another one than before. A good one is served from then on.
// Newest is when the youngest of its files was changed.
func (w *watcher) build(ctx context.Context, newest time.Time) {
	start := time.Now()
	w.again = time.Time{}
	if start.Sub(newest) < sameTime {
		w.again = start.Add(sameTime)
	}
	c, err := w.files.read(ctx)
	if err != nil { // it is being written, or this is the end
		w.again = start
		return
	}
	before := w.read
	if before != nil && before.equal(c) {
		return
	}
	w.read = &c
	result, next := project.Result{Errors: c.problems}, (*version)(nil)
	if len(c.problems) == 0 {
		result, next, err = w.compile(ctx, c)
	}
	switch {
	case ctx.Err() != nil:
		return
	case err != nil:
		result = project.Result{Errors: []project.Problem{{Message: err.Error()}}}
	}
	if next == nil {
		w.refuse(c, result.Errors)
		return
	}
	w.serve(before, c, append(c.warnings, result.Warnings...), next, time.Since(start))
}

// equal reports whether nothing of it is another.
func (c *contents) equal(other contents) bool {
	return maps.EqualFunc(c.files, other.files, bytes.Equal) && maps.Equal(c.variables, other.variables) && slices.Equal(c.problems, other.problems)
}

// compile makes a version of contents, nil for one that has errors.
func (s *server) compile(ctx context.Context, c contents) (project.Result, *version, error) {
	limited, cancel := context.WithTimeoutCause(ctx, project.BuildTime, fmt.Errorf("the project takes longer than %s to compile, in which no build ends", project.BuildTime))
	defer cancel()
	a, result, err := s.compiler.Compile(limited, c.files, project.Input{
		Identity: s.identity(), Variables: c.variables, Catalogue: gateway.Catalogue{}, Verify: gateway.Verify,
	})
	if err != nil || a == nil {
		return result, nil, err
	}
	if result.Errors = s.certify(a); len(result.Errors) > 0 {
		project.Locate(c.files, result.Errors)
		return result, nil, nil
	}
	made, err := s.customers.bind(a)
	if err != nil {
		s.messages.tell("warning: %v", err)
	}
	for _, e := range made {
		s.introduce(e, err == nil)
	}
	return result, s.newVersion(a), nil
}

// certify gives an artifact the certificates that its routes show to upstreams, and answers a problem for each that
// nobody has given.
func (s *server) certify(a *project.Artifact) (problems []project.Problem) {
	for _, r := range a.Routes {
		name, option := handler.WantedCertificate(r.Handler)
		if name == "" {
			continue
		}
		its, ok := s.o.Certificates[name]
		if !ok {
			problems = append(problems, project.Problem{
				File: r.Source.File, Path: r.Source.Pointer + "/x-gateway-route/handler" + option,
				Message: fmt.Sprintf("This route shows its upstream the certificate %q, and none of that name is given: --certificate NAME=CHAIN,KEY names the two files of one, in PEM.", name),
			})
			continue
		}
		if a.Certificates == nil {
			a.Certificates = map[string]project.ClientCertificate{}
		}
		a.Certificates[name] = its
	}
	return problems
}

// introduce tells of a consumer that was made.
func (s *server) introduce(e keyEntry, kept bool) {
	bucket := "the bucket " + e.Bucket
	if e.Bucket == "" {
		bucket = "the project's own bucket"
	}
	if s.o.KeyFile != "" && kept {
		s.messages.tell("the consumer %s of %s has a key in %s", e.Consumer, bucket, s.o.KeyFile)
		return
	}
	s.messages.tell("the consumer %s of %s has the key %s until this ends (--key-file keeps keys)", e.Consumer, bucket, e.Key)
}

// refuse tells why what was saved is not served, and what is.
func (w *watcher) refuse(c contents, errs []project.Problem) {
	w.broken = true
	w.problems(c.files, errs, nil)
	what := "nothing is served until that is mended: requests are answered with status 503"
	if served := w.current.Load(); served != nil {
		what = fmt.Sprintf("what was saved at %s is served on", served.since.Format(time.TimeOnly))
	} else {
		why := refusalOf(errs)
		w.refusal.Store(&why)
	}
	w.messages.tell("%s: %s", count(len(errs), "error"), what)
}

// serve puts a version in the place of the one before, and says what a save has come to.
func (w *watcher) serve(before *contents, c contents, warnings []project.Problem, next *version, took time.Duration) {
	w.current.Store(next)
	if !slices.Equal(warnings, w.warnings) {
		w.problems(c.files, nil, warnings)
		w.warnings = warnings
	}
	routes, took := count(next.routes, "route"), took.Round(time.Millisecond)
	switch {
	case before == nil:
		w.messages.tell("serving %s of %s at %s", routes, w.o.Folder, w.origin)
	case w.broken:
		w.messages.tell("mended: serving %s (%s)", routes, took)
	default:
		w.messages.tell("%s: serving %s (%s)", changed(*before, c), routes, took)
	}
	w.broken = false
}

// problems tells what is wrong, with the lines of the files that it is about.
func (s *server) problems(files project.Files, errs, warnings []project.Problem) {
	r := report.Report{Errors: errs, Warnings: warnings, Source: report.FromFiles(files)}
	_ = r.Text(s.messages, s.o.ErrColour, false) // who closes stderr wants to read nothing
}

// place is where a problem is, with a colon and a space, "" for one that has none.
func place(p project.Problem) string {
	switch {
	case p.File == "":
		return ""
	case p.Line == 0:
		return p.File + ": "
	}
	return fmt.Sprintf("%s:%d:%d: ", p.File, p.Line, p.Column)
}

// refusalOf says to clients why nothing is served.
func refusalOf(errs []project.Problem) string {
	text := "The project can't be served. Mend it, and repeat the request."
	if len(errs) > 0 {
		text = "The project can't be served: " + output.Printable(place(errs[0])+errs[0].Message)
	}
	if n := len(errs) - 1; n > 0 {
		text += fmt.Sprintf(" And %s.", count(n, "more error"))
	}
	return text
}

// changed says which file a save has changed, or how many.
func changed(before, after contents) string {
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

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
