package main

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"golang.org/x/sync/errgroup"

	"github.com/gatewright/gatewright/functions"
	"github.com/gatewright/gatewright/local/apigateway"
	"github.com/gatewright/gatewright/local/datadir"
	"github.com/gatewright/gatewright/local/emulator"
	"github.com/gatewright/gatewright/local/terminal"
	"github.com/gatewright/gatewright/local/triggers"
	"github.com/gatewright/gatewright/shared/accounts"
	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/blob"
	"github.com/gatewright/gatewright/shared/config"
	"github.com/gatewright/gatewright/shared/seal"
)

// installation is everything that a run has opened.
type installation struct {
	dir      *datadir.Dir
	config   config.Config
	database *database
	bucket   *blob.Bucket
	key      seal.KeySource
	accounts *accounts.Service
	s3       *emulator.Emulator // nil for one that runs elsewhere
	uploaded uploadReceiver
}

// uploadReceiver passes S3's events on to the triggers, which are there a
// little later than S3. What comes before them is found by their first look.
type uploadReceiver struct {
	to atomic.Pointer[triggers.Runner]
}

func (u *uploadReceiver) receive(e events.S3Event) {
	if r := u.to.Load(); r != nil {
		r.Uploaded(e)
	}
}

func (i *installation) stop() {
	if i.s3 != nil {
		i.s3.Stop()
	}
	i.database.stop()
}

// open starts or finds the database and S3 and opens all that lies in them.
func open(ctx context.Context, s settings, dir *datadir.Dir, t *terminal.Terminal, log *slog.Logger, gateway net.Addr) (*installation, error) {
	i := &installation{dir: dir}
	t.Step("Starting DynamoDB and S3")
	var both errgroup.Group
	both.Go(func() (err error) {
		i.database, err = openDatabase(ctx, s, dir, t, log)
		return err
	})
	var s3Endpoint string
	var credentials emulator.Credentials
	both.Go(func() (err error) {
		if s.s3 != "" {
			s3Endpoint = s.s3
			return elsewhere(reach(ctx, s.s3), config.VarS3Endpoint)
		}
		if credentials, err = emulator.LoadCredentials(dir); err != nil {
			return err
		}
		i.s3, err = startS3(ctx, dir, credentials, i.uploaded.receive, log)
		if err == nil {
			s3Endpoint = i.s3.Endpoint
		}
		return err
	})
	err := both.Wait()
	if err == nil {
		_, port, _ := net.SplitHostPort(gateway.String()) // a TCP address always has one
		i.config, err = s.config(dir.Path("root.key"), i.endpoint(), s3Endpoint, port)
	}
	if err == nil {
		i.bucket = blob.New(s.aws(credentials), blob.Options{
			Name: bucketName, Endpoint: i.config.S3Endpoint, PublicEndpoint: i.config.S3PublicEndpoint,
		})
		err = i.bucket.Create(ctx)
	}
	if err == nil {
		i.key = seal.OpenFile(i.config.KeyFile)
		_, err = i.key.Root(ctx) // a lost or unsafe key is told now, not at the first request
	}
	if err != nil {
		if i.database == nil {
			i.database = &database{}
		}
		i.stop()
		return nil, err
	}
	i.accounts = accounts.New(i.database.table, i.database.ids, time.Now)
	return i, nil
}

func (i *installation) endpoint() string { return i.database.endpoint }

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
}

// assemble wires every function of the product.
func assemble(i *installation, apiAddr net.Addr, log *slog.Logger) *product {
	server := api.Config{
		Authenticator: i.accounts, Audit: i.database.table, Log: log, IDs: i.database.ids, Now: time.Now,
	}
	services := functions.Services{}
	var front []apigateway.Function
	for _, g := range functions.Groups() {
		front = append(front, apigateway.Function{Group: g.Group, Edge: api.NewServer(server, g.Bind(services)).Edge()})
	}
	runner := triggers.New(triggers.Options{
		Functions:   nil,
		Stream:      triggers.NewTableStream(i.database.sdk, i.database.endpoint, tableName),
		Checkpoints: triggers.InDirectory(i.dir, log),
		Objects:     i.bucket,
		Polled:      i.s3 == nil,
		IDs:         i.database.ids,
		Log:         log,
	})
	i.uploaded.to.Store(runner)
	return &product{
		api: apigateway.New(apigateway.Options{
			Functions: front, Domain: apiAddr.String(), IDs: i.database.ids, Now: time.Now, Log: log,
		}),
		gateway:  http.NotFoundHandler(),
		triggers: runner,
	}
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
