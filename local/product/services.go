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
	"github.com/gatewright/gatewright/local/triggers"
	"github.com/gatewright/gatewright/shared/base/bodies"
	"github.com/gatewright/gatewright/shared/base/ids"
	"github.com/gatewright/gatewright/shared/base/telemetry"
	"github.com/gatewright/gatewright/shared/base/telemetry/otlp"
	"github.com/gatewright/gatewright/shared/base/terminal"
	"github.com/gatewright/gatewright/shared/core/allowance"
	"github.com/gatewright/gatewright/shared/core/config"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/seal"
	"github.com/gatewright/gatewright/shared/core/store/embedded"
	sharedrootkey "github.com/gatewright/gatewright/shared/core/store/rootkey"
	"github.com/gatewright/gatewright/shared/management/api"
	"github.com/gatewright/gatewright/shared/resource/accounts"
	"github.com/gatewright/gatewright/shared/resource/sessions"
	"github.com/gatewright/gatewright/shared/runtime/localdns"
	"github.com/gatewright/gatewright/shared/runtime/trigger"
)

// resources contains the data and services that a run has opened.
type resources struct {
	parts    installation.Parts
	dir      *datadir.Dir
	database *database
	bucket   bucket
	// objectEngine is the engine with the notes about objects, or nil if the objects are in S3. It is the database's
	// engine, unless the table is in DynamoDB.
	objectEngine  *embedded.Backend
	accounts      *accounts.Service
	authenticator *sessions.Service
	getenv        func(string) string
	// lastCheck is the last finished check of the data, or nil before the first one.
	lastCheck atomic.Pointer[integrity.LastCheck]
}

// close closes the files in the data directory and stops the emulators.
func (r *resources) close() error {
	var err error
	r.bucket.stop()
	if r.objectEngine != nil && (r.database == nil || r.objectEngine != r.database.engine) {
		err = r.objectEngine.Close()
	}
	if r.database != nil {
		err = errors.Join(err, r.database.stop())
	}
	return err
}

// blockAddresses prevents requests of projects to addresses of this process that are not for clients. It skips nil
// addresses. The management API is not blocked, because projects may call it like any client, as examples in the
// documentation do.
func (r *resources) blockAddresses(addresses ...net.Addr) {
	for _, a := range addresses {
		if a != nil {
			r.parts.BlockedAddresses = append(r.parts.BlockedAddresses, a.String())
		}
	}
}

// listenAddrs has the addresses of the listeners for the management API, the gateway and the relay. relay is nil if the
// relay is disabled or has no listener of its own.
type listenAddrs struct{ api, gateway, relay net.Addr }

// open opens all data of the installation. fatal is called when the data directory is no longer writable.
func open(
	ctx context.Context, s settings, dir *datadir.Dir, t *terminal.Terminal, log *slog.Logger, addrs listenAddrs,
	fatal func(error),
) (*resources, error) {
	res := &resources{dir: dir, getenv: s.getenv}
	if err := res.open(ctx, s, t, log, addrs, fatal); err != nil {
		return nil, errors.Join(err, res.close())
	}
	return res, nil
}

// open sets the fields of r. After an error, the caller must call close.
func (r *resources) open(
	ctx context.Context, s settings, t *terminal.Terminal, log *slog.Logger, addrs listenAddrs, fatal func(error),
) error {
	if s.functions != "" {
		t.Step("Starting DynamoDB and S3")
	}
	usesS3 := s.s3 != "" || s.functions != ""
	var group errgroup.Group
	group.Go(func() (err error) {
		r.database, err = openDatabase(ctx, s, r.dir, t, log, fatal)
		return err
	})
	if usesS3 {
		group.Go(func() error { return r.bucket.startS3(ctx, s, r.dir, log) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	_, port, err := net.SplitHostPort(addrs.gateway.String())
	if err != nil {
		return fmt.Errorf("read the gateway's address: %w", err)
	}
	c, err := s.config(r.dir.Path(rootkey.Name), r.database.endpoint, r.bucket.endpoint, port)
	if err != nil {
		return err
	}
	c.APIURL = cmp.Or(c.APIURL, origin(addrs.api))
	if s.domain == "" { // without a domain, a file can replace the DNS
		c.DNSRecords = r.dir.Path(localdns.FileName)
	}
	if addrs.relay != nil {
		c.Relay = origin(addrs.relay)
	}
	var key seal.KeySource
	if usesS3 {
		if key, err = r.openKey(ctx, c); err == nil {
			err = r.bucket.openS3(ctx, s, c)
		}
	} else {
		key, err = r.openFiles(ctx, c, addrs, log, fatal)
	}
	if err != nil {
		return err
	}
	r.parts = installation.Parts{
		Config: c, Table: r.database.table, Bucket: r.bucket.Bucket, Key: key,
		DNS: localdns.ResolverFor(c), Random: rand.Reader, Now: time.Now, IDs: r.database.ids, Log: log,
		Rates:     allowance.NewRates(r.database.table, time.Now),
		Telemetry: telemetry.Options{LogPaths: true},
	}
	if r.parts.Telemetry.Tracer, err = otlp.Open(s.getenv, "gatewright", log); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find our own binary: %w", err)
	}
	r.parts.Sandbox = sandbox.New(self, log)
	r.accounts = accounts.Open(r.parts)
	r.authenticator = sessions.Open(r.parts, r.accounts)
	return nil
}

// openKey returns the source of the root key if the objects are in S3. If the table is not in an engine, openKey reads
// or creates the key now, so that an error ends the start.
func (r *resources) openKey(ctx context.Context, c config.Config) (seal.KeySource, error) {
	if r.database.key != nil {
		return r.database.key, nil
	}
	key := sharedrootkey.NewFile(c.KeyFile, r.database.table, time.Now, nil)
	_, err := key.Root(ctx)
	return key, err
}

// openFiles opens the objects in the data directory, and returns the source of the root key. If the database has no
// engine, openFiles opens an engine for the notes about objects.
func (r *resources) openFiles(
	ctx context.Context, c config.Config, addrs listenAddrs, log *slog.Logger, fatal func(error),
) (key seal.KeySource, err error) {
	if r.objectEngine, key = r.database.engine, r.database.key; r.objectEngine == nil {
		if r.objectEngine, err = openEngine(ctx, r.dir, preflight.Options{Objects: true}, log, fatal); err != nil {
			return nil, err
		}
		key = rootkey.Source(r.dir.Path(rootkey.Name), r.objectEngine, r.database.table, time.Now)
	}
	return key, r.bucket.openFiles(r.dir, r.objectEngine, key, cmp.Or(c.S3PublicEndpoint, uploadOrigin(c, addrs)),
		apigateway.Refuser{IDs: r.database.ids, Now: time.Now, Log: log})
}

// uploadOrigin returns the default origin of upload URLs: the management API's name below the domain, or without a
// domain the address of its listener.
func uploadOrigin(c config.Config, addrs listenAddrs) string {
	if c.APIDomain != "" {
		return "https://" + c.APIDomain
	}
	return origin(addrs.api)
}

// product has the handlers and functions of the installation.
type product struct {
	api     http.Handler
	gateway http.Handler
	// hosts are the gateway's hosts, or nil if the gateway is a separate process.
	hosts    *gateway.Hosts
	triggers *triggers.Runner
	ids      *ids.Source
	// bodies is the memory for the request bodies of all listeners.
	bodies *bodies.Budget
	// relay is the relay of this process. It is nil if the relay is a separate process or disabled.
	relay *relay.Process
	// upkeep periodically returns leased units that the gateway has not used, and writes its call counts, until its
	// context ends. It is nil if the gateway is a separate process.
	upkeep func(context.Context)
	// drain returns all leased units of the gateway and writes its call counts. Without drain, most of these units could
	// not be used until their period ends.
	drain func(context.Context) error
	// tracer records the spans of this process. stop sends its last spans. It is nil if functions are separate processes.
	tracer *telemetry.Tracer
	// close ends the processes of the functions and of the relay, if there are any.
	close func()
}

// assemble wires all functions of the product in this process.
func assemble(res *resources, apiAddr net.Addr) (*product, error) {
	var tunnels *relay.Process
	var options gateway.Options
	if res.parts.Config.Relay != "" {
		tunnels = relay.New(res.parts, "")
		options.Services = tunnels
	}
	dataPlane, err := gateway.New(res.parts, options)
	if err != nil {
		return nil, err
	}
	res.parts.UnspentUnits = dataPlane.UnspentUnits
	var apiFunctions []apigateway.Function
	for _, g := range functions.Groups() {
		apiFunctions = append(apiFunctions,
			apigateway.Function{Group: g.Group, Edge: api.Open(res.parts, res.authenticator, g.Bind(res.parts)).Edge()})
	}
	triggered, err := res.triggered()
	if err != nil {
		return nil, err
	}
	runner, err := res.newRunner(triggered)
	if err != nil {
		return nil, err
	}
	return &product{
		api:      res.bucket.serve(res.newGateway(apiFunctions, res.authenticator, apiAddr)),
		gateway:  dataPlane,
		hosts:    dataPlane.Hosts,
		relay:    tunnels,
		ids:      res.parts.IDs,
		triggers: runner,
		upkeep:   dataPlane.Run,
		drain:    dataPlane.Drain,
		tracer:   res.parts.Telemetry.Tracer,
		close:    func() {},
	}, nil
}

// newGateway returns the replacement for API Gateway, which calls functions for requests. Except for public operations,
// it does not read the bodies of unauthenticated clients. If authenticator is nil, it reads all bodies.
func (r *resources) newGateway(
	fns []apigateway.Function, authenticator api.Authenticator, addr net.Addr,
) *apigateway.Gateway {
	return apigateway.New(apigateway.Options{
		Functions: fns, Authenticator: authenticator, Domain: addr.String(), TrustedProxies: r.parts.Config.TrustedProxies,
		IDs: r.parts.IDs, Now: time.Now, Log: r.parts.Log,
	})
}

// newRunner returns the Runner that calls functions for changes of the table, uploads and schedules.
func (r *resources) newRunner(triggered []triggers.Function) (*triggers.Runner, error) {
	feed, checkpoints := triggers.NewStreamFeed(triggers.NewTableStream(r.database.sdk, r.database.endpoint, tableName)),
		triggers.NewFileCheckpoints(r.dir, r.parts.Log)
	if engine := r.database.engine; engine != nil {
		feed, checkpoints = triggers.NewEngineFeed(engine), triggers.NewEngineCheckpoints(engine, r.parts.Log)
	}
	runner, err := triggers.New(triggers.Options{
		Functions:   triggered,
		Feed:        feed,
		Checkpoints: checkpoints,
		Objects:     r.bucket.Bucket,
		PollUploads: r.bucket.lacksNotifications(),
		IDs:         r.parts.IDs,
		Now:         time.Now,
		Log:         r.parts.Log,
	})
	if err != nil {
		return nil, fmt.Errorf("call functions: %w", err)
	}
	r.bucket.uploads.runner.Store(runner)
	return runner, nil
}

// triggered returns the functions that the table, the bucket or a schedule calls, with their handlers. It omits the
// function for HTTP requests, which has a listener instead. It also omits functions that only operators invoke, because
// local commands replace them.
func (r *resources) triggered() ([]triggers.Function, error) {
	var out []triggers.Function
	for _, f := range functions.Triggered() {
		if !slices.ContainsFunc(f.Events, func(e trigger.Event) bool { return !e.HTTP && !e.Invoked }) {
			continue
		}
		handler, err := f.Open(r.parts)
		if err != nil {
			return nil, fmt.Errorf("open the function %s: %w", f.Name, err)
		}
		out = append(out, triggers.Function{Function: f.Function, Handler: lambda.NewHandler(handler)})
	}
	return out, nil
}

// stop drains the gateway and sends the last spans, within timeout.
func (p *product) stop(ctx context.Context, timeout time.Duration) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	_ = p.drain(ctx)
	p.tracer.Close(ctx)
}

// runTriggers calls functions until ctx ends. It then waits for the calls in
// progress, but not longer than timeout: the next start continues unfinished work.
func (p *product) runTriggers(ctx context.Context, timeout time.Duration) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.triggers.Run(ctx)
	}()
	<-ctx.Done()
	select {
	case <-done:
	case <-time.After(timeout):
	}
	return nil
}
