package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"
	"golang.org/x/sync/errgroup"

	"github.com/gatewright/gatewright/functions"
	"github.com/gatewright/gatewright/functions/gateway"
	"github.com/gatewright/gatewright/local/apigateway"
	"github.com/gatewright/gatewright/local/datadir"
	"github.com/gatewright/gatewright/local/emulator"
	"github.com/gatewright/gatewright/local/sandbox"
	"github.com/gatewright/gatewright/local/terminal"
	"github.com/gatewright/gatewright/local/triggers"
	"github.com/gatewright/gatewright/shared/accounts"
	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/blob"
	"github.com/gatewright/gatewright/shared/config"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/seal"
	"github.com/gatewright/gatewright/shared/telemetry"
	"github.com/gatewright/gatewright/shared/trigger"
)

// opened is everything that a run has opened.
type opened struct {
	parts    installation.Parts
	dir      *datadir.Dir
	database *database
	bucket   *blob.Bucket
	keys     emulator.Credentials // of S3; the database takes any
	accounts *accounts.Service
	s3       *emulator.Emulator // nil for one that runs elsewhere
	uploaded uploadReceiver
	getenv   func(string) string
}

// uploadReceiver passes S3's events on to the triggers, which are there a
// little later than S3. What comes before them is found by their first look.
type uploadReceiver struct {
	to atomic.Pointer[triggers.Runner]
}

func (u *uploadReceiver) receive(e events.S3Event) {
	if r := u.to.Load(); r != nil {
		r.ObjectCreated(e)
	}
}

// close ends the emulators that were started.
func (o *opened) close() {
	if o.s3 != nil {
		o.s3.Stop()
	}
	if o.database != nil {
		o.database.stop()
	}
}

// open starts or finds the database and S3 and opens all that lies in them.
// served is the gateway's address, the one under which deployments are reached.
func open(ctx context.Context, s settings, dir *datadir.Dir, t *terminal.Terminal, log *slog.Logger, served net.Addr) (*opened, error) {
	o := &opened{dir: dir, getenv: s.getenv}
	if err := o.open(ctx, s, t, log, served); err != nil {
		o.close()
		return nil, err
	}
	return o, nil
}

func (o *opened) open(ctx context.Context, s settings, t *terminal.Terminal, log *slog.Logger, served net.Addr) error {
	t.Step("Starting DynamoDB and S3")
	s3Endpoint := s.s3
	var credentials emulator.Credentials
	var both errgroup.Group
	both.Go(func() (err error) {
		o.database, err = openDatabase(ctx, s, o.dir, t, log)
		return err
	})
	both.Go(func() (err error) {
		if s.s3 != "" {
			credentials = anyCredentials()
			return elsewhere(reach(ctx, s.s3), config.VarS3Endpoint)
		}
		if credentials, err = emulator.LoadCredentials(o.dir); err != nil {
			return err
		}
		o.s3, err = startS3(ctx, o.dir, credentials, o.uploaded.receive, log)
		if err == nil {
			s3Endpoint = o.s3.Endpoint
		}
		return err
	})
	if err := both.Wait(); err != nil {
		return err
	}
	_, port, err := net.SplitHostPort(served.String())
	if err != nil {
		return fmt.Errorf("read the gateway's address: %w", err)
	}
	c, err := s.config(o.dir.Path("root.key"), o.database.endpoint, s3Endpoint, port)
	if err != nil {
		return err
	}
	o.bucket = blob.New(s.aws(credentials), blob.Options{
		Name: bucketName, Endpoint: c.S3Endpoint, PublicEndpoint: c.S3PublicEndpoint,
	})
	if err := o.bucket.Create(ctx); err != nil {
		return err
	}
	o.keys = credentials
	key := seal.OpenFile(c.KeyFile)
	if _, err := key.Root(ctx); err != nil { // told now, not at the first request
		return err
	}
	o.parts = installation.Parts{
		Config: c, Table: o.database.table, Bucket: o.bucket, Key: key,
		Random: rand.Reader, Now: time.Now, IDs: o.database.ids, Log: log,
		Telemetry: telemetry.Options{Paths: true},
	}
	if o.parts.Telemetry.Tracer, err = telemetry.Open(s.getenv, "gatewright", log); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find our own binary: %w", err)
	}
	o.parts.Sandbox = sandbox.New(self, log)
	o.accounts = accounts.Open(o.parts)
	return nil
}

func startS3(ctx context.Context, dir *datadir.Dir, c emulator.Credentials, created func(events.S3Event), log *slog.Logger) (*emulator.Emulator, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find our own binary: %w", err)
	}
	e, err := emulator.StartS3(ctx, emulator.S3Options{Dir: dir, Self: self, Credentials: c, Created: created, Log: log})
	if err != nil {
		return nil, fmt.Errorf("%w (its log is %s)", err, dir.Path("logs", "s3.log"))
	}
	return e, nil
}

// product is the installation, wired.
type product struct {
	api      http.Handler
	gateway  http.Handler
	triggers *triggers.Runner
	// drain gives back what the gateway has leased. Without it nothing is lost
	// but what was leased, until its window ends.
	drain func(context.Context) error
	// tracer has spans to send before the end, nil where the functions have it.
	tracer *telemetry.Tracer
	// close ends the functions' processes, where they have any.
	close func()
}

// assemble wires every function of the product in this process.
func assemble(o *opened, apiAddr net.Addr) (*product, error) {
	var front []apigateway.Function
	for _, g := range functions.Groups() {
		front = append(front, apigateway.Function{Group: g.Group, Edge: api.Open(o.parts, o.accounts, g.Bind(o.parts)).Edge()})
	}
	data, err := gateway.New(o.parts)
	if err != nil {
		return nil, err
	}
	called, err := o.triggered()
	if err != nil {
		return nil, err
	}
	return &product{
		api:      o.front(front, o.accounts, apiAddr),
		gateway:  data,
		triggers: o.runner(called),
		drain:    data.Drain,
		tracer:   o.parts.Telemetry.Tracer,
		close:    func() {},
	}, nil
}

// front is the API Gateway before functions that routes call; callers are whose bodies
// are waited for, nil for everybody's.
func (o *opened) front(functions []apigateway.Function, callers api.Authenticator, addr net.Addr) *apigateway.Gateway {
	return apigateway.New(apigateway.Options{
		Functions: functions, Callers: callers, Domain: addr.String(), IDs: o.parts.IDs, Now: time.Now, Log: o.parts.Log,
	})
}

// runner calls functions that events call, from the table's stream, S3 and
// schedules.
func (o *opened) runner(called []triggers.Function) *triggers.Runner {
	runner := triggers.New(triggers.Options{
		Functions:   called,
		Feed:        triggers.Shards(triggers.NewTableStream(o.database.sdk, o.database.endpoint, tableName)),
		Checkpoints: triggers.InDirectory(o.dir, o.parts.Log),
		Objects:     o.bucket,
		Polled:      o.s3 == nil,
		IDs:         o.parts.IDs,
		Log:         o.parts.Log,
	})
	o.uploaded.to.Store(runner)
	return runner
}

// triggered gives the functions that the table, the bucket or a clock calls, with
// their handlers. Requests have a listener of their own, and what only an
// operator calls has a command.
func (o *opened) triggered() ([]triggers.Function, error) {
	var out []triggers.Function
	for _, f := range functions.Triggered() {
		if !slices.ContainsFunc(f.On, func(e trigger.Event) bool { return !e.HTTP && !e.Invoked }) {
			continue
		}
		handler, err := f.Open(o.parts)
		if err != nil {
			return nil, fmt.Errorf("open the function %s: %w", f.Name, err)
		}
		out = append(out, triggers.Function{Function: f.Function, Handler: lambda.NewHandler(handler)})
	}
	return out, nil
}

// stop drains the gateway and sends the last spans, for a while.
func (p *product) stop(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	_ = p.drain(ctx)
	p.tracer.Close(ctx)
}

// runTriggers calls functions until ctx ends, and then gives the running calls
// a little time: what they leave undone is done after the next start.
func (p *product) runTriggers(ctx context.Context) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.triggers.Run(ctx)
	}()
	<-ctx.Done()
	select {
	case <-done:
	case <-time.After(shutdownTimeout):
	}
	return nil
}

func lastLine(text []byte) []byte {
	text = bytes.TrimSpace(text)
	return text[bytes.LastIndexByte(text, '\n')+1:]
}
