package world

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/gatewright/gatewright/internal/free"
	"github.com/gatewright/gatewright/local/datadir"
	"github.com/gatewright/gatewright/local/emulator"
	"github.com/gatewright/gatewright/local/rootkey"
	"github.com/gatewright/gatewright/shared/config"
)

// Installation is emulators of DynamoDB and S3 with a management API over them, a project that is deployed, and what gateways of
// it are started with.
type Installation struct {
	Site
	Certificate

	Binary    string
	Env       []string
	Announces time.Duration // of an end, 0 for the default

	mu    sync.Mutex
	ended int
}

// Waiting is a project with a key and a strict limit, whose route /wait/N is answered after N milliseconds.
func Waiting(upstream string) Project {
	get := Route{
		Method: "get", Path: "/wait/{ms}", Handler: "urlForwardHandler", Options: Options{"baseUrl": upstream},
		Inbound: []string{"key", "limit"}, Operation: Parameters("ms"),
	}
	post := get
	post.Method = "post"
	return Project{Policies: []Policy{Key(), StrictLimit()}, Routes: []Route{get, post}}
}

// Install starts the emulators and the management API over the folder name, and deploys the project Waiting.
func (w *World) Install(ctx context.Context, name string) (*Installation, error) {
	in := &Installation{Announces: 2 * time.Second}
	var err error
	if in.Certificate, err = NewCertificate(); err != nil {
		return nil, err
	}
	if in.Binary, err = w.Build(ctx, Server); err != nil {
		return nil, err
	}
	program, err := w.Build(ctx, "./local/emulator/process/program")
	if err != nil {
		return nil, err
	}
	dir, err := w.Folder(name)
	if err != nil {
		return nil, err
	}
	below, err := datadir.Open(dir)
	if err != nil {
		return nil, err
	}
	dynoxide, err := emulator.FindDynoxide(os.Getenv)
	if err != nil {
		return nil, err
	}
	log := slog.New(slog.DiscardHandler)
	table, err := emulator.StartDynamoDB(ctx, emulator.DynamoDBOptions{Dir: below, Binary: dynoxide, Program: program, Log: log})
	if err != nil {
		return nil, err
	}
	w.AtEnd(table.Stop)
	secret, err := emulator.LoadCredentials(below)
	if err != nil {
		return nil, err
	}
	objects, err := emulator.StartS3(ctx, emulator.S3Options{Dir: below, Program: program, Credentials: secret, Created: func(events.S3Event) {}, Log: log})
	if err != nil {
		return nil, err
	}
	w.AtEnd(objects.Stop)
	cloud := []string{
		"AWS_REGION=" + emulator.Region, "AWS_ACCESS_KEY_ID=" + secret.AccessKeyID, "AWS_SECRET_ACCESS_KEY=" + secret.SecretAccessKey,
		config.VarDynamoDBEndpoint + "=" + table.Endpoint, config.VarS3Endpoint + "=" + objects.Endpoint, config.VarPrivateUpstreams + "=true",
	}
	server, err := w.RunServer(ctx, name, in.Certificate, cloud...)
	if err != nil {
		return nil, err
	}
	site, err := server.Site(ctx, Waiting(w.Serve().URL))
	if err != nil {
		return nil, err
	}
	in.Site = *site
	in.Env = append(append(os.Environ(), cloud...),
		config.VarTable+"=gatewright", config.VarBucket+"=gatewright", config.VarKeyFile+"="+filepath.Join(server.Data(), rootkey.Name),
		config.VarDeploymentURL+"=https://{deployment}."+Domain, config.VarCertificate+"="+in.Chain+in.Private)
	return in, nil
}

// Addresses are where a gateway listens, host:port.
type Addresses struct{ Secure, Plain, Admin string }

// FreeAddresses are addresses at which nobody listens.
func FreeAddresses(ctx context.Context) (a Addresses, err error) {
	for _, to := range []*string{&a.Secure, &a.Plain, &a.Admin} {
		at, err := free.Find(ctx)
		if err != nil {
			return a, err
		}
		*to = at.String()
	}
	return a, nil
}

// Gateway is a process of `gatewright-server gateway`.
type Gateway struct {
	Addresses
	PID            int
	Began, Listens time.Time

	in   *Installation
	cmd  *exec.Cmd
	over chan error // gets how it ended
}

// Start starts a gateway, and returns when it listens.
func (in *Installation) Start(at Addresses) (*Gateway, error) {
	g := &Gateway{Addresses: at, in: in, cmd: exec.Command(in.Binary, "gateway"), over: make(chan error, 1)} //nolint:gosec,noctx // Stop ends it
	g.cmd.Env = append(in.Env[:len(in.Env):len(in.Env)],
		config.VarTLSAddr+"="+at.Secure, config.VarGatewayAddr+"="+at.Plain, config.VarAdminAddr+"="+at.Admin)
	if in.Announces != 0 {
		g.cmd.Env = append(g.cmd.Env, config.VarAnnounce+"="+in.Announces.String())
	}
	out, err := g.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start a gateway: %w", err)
	}
	g.Began = time.Now()
	if err := g.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start a gateway: %w", err)
	}
	g.PID = g.cmd.Process.Pid
	lines := bufio.NewReader(out)
	for {
		text, err := lines.ReadString('\n')
		if err != nil {
			return nil, errors.Join(fmt.Errorf("the gateway does not listen: %s: %w", text, err), g.cmd.Wait())
		}
		if strings.Contains(text, `"operators ask"`) {
			break
		}
	}
	g.Listens = time.Now()
	go func() {
		_, _ = io.Copy(io.Discard, lines)
		g.over <- g.cmd.Wait()
	}()
	return g, nil
}

// Stop ends the gateway as a platform does, and waits until it has ended. A gateway that ends with an error is not counted.
func (g *Gateway) Stop() error {
	if err := g.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("end a gateway: %w", err)
	}
	if err := <-g.over; err != nil {
		return fmt.Errorf("a gateway ends badly: %w", err)
	}
	g.in.mu.Lock()
	defer g.in.mu.Unlock()
	g.in.ended++
	return nil
}

// Ended returns how many gateways have ended well.
func (in *Installation) Ended() int {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.ended
}
