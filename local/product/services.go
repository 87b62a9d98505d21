package product

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/aws/aws-lambda-go/lambda"
	"golang.org/x/sync/errgroup"

	"github.com/gatewright/gatewright/functions"
	"github.com/gatewright/gatewright/functions/gateway"
	"github.com/gatewright/gatewright/functions/relay"
	"github.com/gatewright/gatewright/local/apigateway"
	"github.com/gatewright/gatewright/local/datadir"
	"github.com/gatewright/gatewright/local/integrity"
	"github.com/gatewright/gatewright/local/preflight"
	"github.com/gatewright/gatewright/local/rootkey"
	"github.com/gatewright/gatewright/local/sandbox"
	"github.com/gatewright/gatewright/local/terminal"
	"github.com/gatewright/gatewright/local/triggers"
	"github.com/gatewright/gatewright/shared/accounts"
	"github.com/gatewright/gatewright/shared/allowance"
	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/bodies"
	"github.com/gatewright/gatewright/shared/config"
	"github.com/gatewright/gatewright/shared/ids"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/seal"
	"github.com/gatewright/gatewright/shared/sessions"
	"github.com/gatewright/gatewright/shared/store/embedded"
	sharedrootkey "github.com/gatewright/gatewright/shared/store/rootkey"
	"github.com/gatewright/gatewright/shared/telemetry"
	"github.com/gatewright/gatewright/shared/telemetry/otlp"
	"github.com/gatewright/gatewright/shared/trigger"
	"github.com/gatewright/gatewright/shared/zone"
)

// opened is everything that a run has opened.
type opened struct {
	parts    installation.Parts
	dir      *datadir.Dir
	database *database
	bucket   bucket
	// notes is the engine that has the objects' notes. It is the database's, unless
	// that one runs elsewhere.
	notes    *embedded.Backend
	accounts *accounts.Service
	callers  *sessions.Service
	getenv   func(string) string
	// checked is the last check of the data, nil before the first one.
	checked atomic.Pointer[integrity.Last]
}

// close closes what lies in the data directory, and ends the emulators.
func (o *opened) close() error {
	var err error
	o.bucket.stop()
	if o.notes != nil && (o.database == nil || o.notes != o.database.engine) {
		err = o.notes.Close()
	}
	if o.database != nil {
		err = errors.Join(err, o.database.stop())
	}
	return err
}

// unasked keeps projects from addresses at which this process listens for others than clients, nil for none. The
// management API is asked by clients, and so by projects: examples of the documentation do.
func (o *opened) unasked(addresses ...net.Addr) {
	for _, a := range addresses {
		if a != nil {
			o.parts.Unasked = append(o.parts.Unasked, a.String())
		}
	}
}

// at are the addresses of a run: of the management API, of the gateway, which has
// deployments, and of the relay, nil for none.
type at struct{ api, gateway, relay net.Addr }

// open opens all that the installation's data lie in. fatal is called when the
// data directory cannot be written to any more.
func open(ctx context.Context, s settings, dir *datadir.Dir, t *terminal.Terminal, log *slog.Logger, served at, fatal func(error)) (*opened, error) {
	o := &opened{dir: dir, getenv: s.getenv}
	if err := o.open(ctx, s, t, log, served, fatal); err != nil {
		return nil, errors.Join(err, o.close())
	}
	return o, nil
}

func (o *opened) open(ctx context.Context, s settings, t *terminal.Terminal, log *slog.Logger, served at, fatal func(error)) error {
	if s.functions != "" {
		t.Step("Starting DynamoDB and S3")
	}
	inS3 := s.s3 != "" || s.functions != ""
	var both errgroup.Group
	both.Go(func() (err error) {
		o.database, err = openDatabase(ctx, s, o.dir, t, log, fatal)
		return err
	})
	if inS3 {
		both.Go(func() error { return o.bucket.startS3(ctx, s, o.dir, log) })
	}
	if err := both.Wait(); err != nil {
		return err
	}
	_, port, err := net.SplitHostPort(served.gateway.String())
	if err != nil {
		return fmt.Errorf("read the gateway's address: %w", err)
	}
	c, err := s.config(o.dir.Path(rootkey.Name), o.database.endpoint, o.bucket.endpoint, port)
	if err != nil {
		return err
	}
	c.APIURL = cmp.Or(c.APIURL, origin(served.api))
	if s.domain == "" { // elsewhere nothing stands for the DNS
		c.DNSRecords = o.dir.Path(zone.Name)
	}
	if served.relay != nil {
		c.Relay = origin(served.relay)
	}
	var key seal.KeySource
	if inS3 {
		if key, err = o.openKey(ctx, c); err == nil {
			err = o.bucket.openS3(ctx, s, c)
		}
	} else {
		key, err = o.openFiles(ctx, c, served, log, fatal)
	}
	if err != nil {
		return err
	}
	o.parts = installation.Parts{
		Config: c, Table: o.database.table, Bucket: o.bucket.Bucket, Key: key,
		DNS: zone.Of(c), Random: rand.Reader, Now: time.Now, IDs: o.database.ids, Log: log,
		Rates:     allowance.NewRates(o.database.table, time.Now),
		Telemetry: telemetry.Options{Paths: true},
	}
	if o.parts.Telemetry.Tracer, err = otlp.Open(s.getenv, "gatewright", log); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find our own binary: %w", err)
	}
	o.parts.Sandbox = sandbox.New(self, log)
	o.accounts = accounts.Open(o.parts)
	o.callers = sessions.Open(o.parts, o.accounts)
	return nil
}

// openKey opens the root key where no engine has: now, not at the first request.
func (o *opened) openKey(ctx context.Context, c config.Config) (seal.KeySource, error) {
	if o.database.key != nil {
		return o.database.key, nil
	}
	key := sharedrootkey.InFile(c.KeyFile, o.database.table, time.Now, nil)
	_, err := key.Root(ctx)
	return key, err
}

// openFiles opens the objects in the data directory, and the engine for their notes
// if the database has none.
func (o *opened) openFiles(ctx context.Context, c config.Config, served at, log *slog.Logger, fatal func(error)) (key seal.KeySource, err error) {
	if o.notes, key = o.database.engine, o.database.key; o.notes == nil {
		if o.notes, err = openEngine(ctx, o.dir, preflight.Options{Objects: true}, log, fatal); err != nil {
			return nil, err
		}
		key = rootkey.Source(o.dir.Path(rootkey.Name), o.notes, o.database.table, time.Now)
	}
	return key, o.bucket.openFiles(o.dir, o.notes, key, cmp.Or(c.S3PublicEndpoint, uploadsAt(c, served)),
		apigateway.Refusal{IDs: o.database.ids, Now: time.Now, Log: log})
}

// uploadsAt is where clients upload to, which is where the management API is.
func uploadsAt(c config.Config, served at) string {
	if c.APIDomain != "" {
		return "https://" + c.APIDomain
	}
	return origin(served.api)
}

// product is the installation, wired.
type product struct {
	api     http.Handler
	gateway http.Handler
	// hosts are the gateway's, nil where it runs elsewhere.
	hosts    *gateway.Hosts
	triggers *triggers.Runner
	ids      *ids.Source
	// bodies is the budget of all listeners.
	bodies *bodies.Budget
	// relay is this process's, nil where it runs elsewhere or there is none.
	relay *relay.Process
	// keep gives back, as it goes, what the gateway has leased and does not spend, until
	// its context ends; nil where the functions do.
	keep func(context.Context)
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
	var tunnelled *relay.Process
	var options gateway.Options
	if o.parts.Config.Relay != "" {
		tunnelled = relay.New(o.parts, "")
		options.Services = tunnelled
	}
	data, err := gateway.New(o.parts, options)
	if err != nil {
		return nil, err
	}
	o.parts.Held = data.Held
	var front []apigateway.Function
	for _, g := range functions.Groups() {
		front = append(front, apigateway.Function{Group: g.Group, Edge: api.Open(o.parts, o.callers, g.Bind(o.parts)).Edge()})
	}
	called, err := o.triggered()
	if err != nil {
		return nil, err
	}
	runner, err := o.runner(called)
	if err != nil {
		return nil, err
	}
	return &product{
		api:      o.bucket.serve(o.front(front, o.callers, apiAddr)),
		gateway:  data,
		hosts:    data.Hosts,
		relay:    tunnelled,
		ids:      o.parts.IDs,
		triggers: runner,
		keep:     data.Run,
		drain:    data.Drain,
		tracer:   o.parts.Telemetry.Tracer,
		close:    func() {},
	}, nil
}

// front is the API Gateway before functions that routes call; callers are whose bodies
// are waited for, nil for everybody's.
func (o *opened) front(functions []apigateway.Function, callers api.Authenticator, addr net.Addr) *apigateway.Gateway {
	return apigateway.New(apigateway.Options{
		Functions: functions, Callers: callers, Domain: addr.String(), Trusted: o.parts.Config.TrustedProxies, IDs: o.parts.IDs, Now: time.Now, Log: o.parts.Log,
	})
}

// runner calls functions that events call, from the table's changes, uploads and
// schedules.
func (o *opened) runner(called []triggers.Function) (*triggers.Runner, error) {
	feed, checkpoints := triggers.Shards(triggers.NewTableStream(o.database.sdk, o.database.endpoint, tableName)), triggers.InDirectory(o.dir, o.parts.Log)
	if engine := o.database.engine; engine != nil {
		feed, checkpoints = triggers.Embedded(engine), triggers.InEngine(engine, o.parts.Log)
	}
	runner, err := triggers.New(triggers.Options{
		Functions:   called,
		Feed:        feed,
		Checkpoints: checkpoints,
		Objects:     o.bucket.Bucket,
		Polled:      o.bucket.silent(),
		IDs:         o.parts.IDs,
		Now:         time.Now,
		Log:         o.parts.Log,
	})
	if err != nil {
		return nil, fmt.Errorf("call functions: %w", err)
	}
	o.bucket.uploaded.to.Store(runner)
	return runner, nil
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
func (p *product) stop(ctx context.Context, within time.Duration) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), within)
	defer cancel()
	_ = p.drain(ctx)
	p.tracer.Close(ctx)
}

// runTriggers calls functions until ctx ends, and then gives the running calls
// a little time: what they leave undone is done after the next start.
func (p *product) runTriggers(ctx context.Context, within time.Duration) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.triggers.Run(ctx)
	}()
	<-ctx.Done()
	select {
	case <-done:
	case <-time.After(within):
	}
	return nil
}
