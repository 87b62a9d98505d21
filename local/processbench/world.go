package main

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/gatewright/gatewright/local/datadir"
	"github.com/gatewright/gatewright/local/emulator"
	"github.com/gatewright/gatewright/local/instance"
	"github.com/gatewright/gatewright/local/rootkey"
	"github.com/gatewright/gatewright/shared/config"
)

// domain has all names here. No DNS has it: clients know where it is.
const domain = "bench.test"

// The files of a server's certificate and its key, in the folder beside its data.
const (
	chainFile   = "chain.pem"
	privateFile = "key.pem"
)

// certificate is that of the domain's names, and trusts itself.
type certificate struct {
	chain, private string // PEM
	roots          *x509.CertPool
}

func certify() (c certificate, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return c, fmt.Errorf("make a key: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: domain}, DNSNames: []string{domain, "*." + domain},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(0, 3, 0),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return c, fmt.Errorf("make a certificate: %w", err)
	}
	leaf, err := x509.ParseCertificate(raw)
	if err != nil {
		return c, fmt.Errorf("read a certificate: %w", err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return c, fmt.Errorf("encode a key: %w", err)
	}
	c.chain = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}))
	c.private = string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))
	c.roots = x509.NewCertPool()
	c.roots.AddCert(leaf)
	return c, nil
}

// tls is how clients speak to a name.
func (c certificate) tls(name string) *tls.Config {
	return &tls.Config{RootCAs: c.roots, ServerName: name, MinVersion: tls.VersionTLS12}
}

// site is a deployment that a key opens, and its upstream, which is here.
type site struct {
	host, key string
	upstream  *httptest.Server
}

// body is what the upstream answers.
const body = "served"

// newUpstream answers at /wait/N after N milliseconds.
func newUpstream() *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ms, err := strconv.Atoi(filepath.Base(r.URL.Path))
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		time.Sleep(time.Duration(ms) * time.Millisecond)
		_, _ = io.WriteString(w, body)
	}))
}

// limit is how many requests the strict limit lets through in a minute: more than are asked.
const limit = 1_000_000_000

// files are a project with a key and a strict limit.
func files(upstream string) map[string]string {
	type object = map[string]any
	const module = "$import(@gatewright/runtime)"
	policy := func(name, kind string, options object) object {
		return object{"name": name, "policyType": kind, "handler": object{"export": "Policy", "module": module, "options": options}}
	}
	operation := func(id string) object {
		return object{
			"operationId": id, "responses": object{"200": object{"description": "ok"}},
			"parameters": []object{{"name": "ms", "in": "path", "required": true, "schema": object{"type": "string"}}},
			"x-gateway-route": object{
				"corsPolicy": "none", "handler": object{"export": "urlForwardHandler", "module": module, "options": object{"baseUrl": upstream}},
				"policies": object{"inbound": []string{"key", "limit"}},
			},
		}
	}
	text := func(o object) string {
		raw, err := json.Marshal(o)
		if err != nil {
			panic(err) // maps of strings always encode
		}
		return string(raw)
	}
	return map[string]string{
		"gatewright.jsonc": `{"version":1,"compatibilityDate":"2026-11-01","projectType":"self-hosted"}`,
		"config/routes.oas.json": text(object{
			"openapi": "3.1.0", "info": object{"title": "bench", "version": "1"},
			"paths": object{"/wait/{ms}": object{"get": operation("read"), "post": operation("write")}},
		}),
		"config/policies.json": text(object{"policies": []object{
			policy("key", "api-key-inbound", object{}),
			policy("limit", "rate-limit-inbound", object{"rateLimitBy": "user", "requestsAllowed": limit, "timeWindowMinutes": 1}),
		}}),
	}
}

// consumers is where the project's consumers are made.
const consumers = "/v1/accounts/demo/key-buckets/bench-production/consumers"

// deploy deploys the project, and makes a consumer of it.
func deploy(ctx context.Context, i *instance.Instance) (s *site, err error) {
	s = &site{upstream: newUpstream()}
	defer func() {
		if err != nil {
			s.upstream.Close()
		}
	}()
	if err := i.Into(ctx, nil, http.MethodPost, "/v1/projects?accountName=demo", `{"name":"bench"}`); err != nil {
		return nil, err
	}
	b, err := i.Deploy(ctx, "demo", "bench", instance.Archive(files(s.upstream.URL)))
	if err != nil {
		return nil, err
	}
	if b.Status != "SUCCESS" {
		return nil, fmt.Errorf("the project is not built: %s %s", b.Status, b.BuildResult)
	}
	at, err := url.Parse(b.URL)
	if err != nil {
		return nil, fmt.Errorf("read a deployment's address: %w", err)
	}
	var made struct{ APIKeys []struct{ Key string } }
	if err := i.Into(ctx, &made, http.MethodPost, consumers+"?with-api-key=true", `{"name":"bench"}`); err != nil {
		return nil, err
	}
	if len(made.APIKeys) == 0 {
		return nil, errors.New("the consumer has no key")
	}
	s.host, s.key = at.Hostname(), made.APIKeys[0].Key
	return s, nil
}

// installation is a table and a bucket with a management API, and what gateways of it are told.
type installation struct {
	*site
	certificate

	binary    string
	env       []string
	stops     []func()
	announces time.Duration // of an end, 0 for the default
	ended     int           // gateways
}

func newInstallation(ctx context.Context, dir string, o options) (_ *installation, err error) {
	in := &installation{binary: o.binary, announces: 2 * time.Second}
	defer func() {
		if err != nil {
			in.stop()
		}
	}()
	if in.certificate, err = certify(); err != nil {
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
	program, err := os.Executable() // main makes it the emulators' program
	if err != nil {
		return nil, fmt.Errorf("find this program's own file: %w", err)
	}
	log := slog.New(slog.DiscardHandler)
	table, err := emulator.StartDynamoDB(ctx, emulator.DynamoDBOptions{Dir: below, Binary: dynoxide, Program: program, Log: log})
	if err != nil {
		return nil, err
	}
	in.stops = append(in.stops, table.Stop)
	secret, err := emulator.LoadCredentials(below)
	if err != nil {
		return nil, err
	}
	objects, err := emulator.StartS3(ctx, emulator.S3Options{Dir: below, Program: program, Credentials: secret, Created: func(events.S3Event) {}, Log: log})
	if err != nil {
		return nil, err
	}
	in.stops = append(in.stops, objects.Stop)
	cloud := []string{
		"AWS_REGION=" + emulator.Region, "AWS_ACCESS_KEY_ID=" + secret.AccessKeyID, "AWS_SECRET_ACCESS_KEY=" + secret.SecretAccessKey,
		config.VarDynamoDBEndpoint + "=" + table.Endpoint, config.VarS3Endpoint + "=" + objects.Endpoint, config.VarPrivateUpstreams + "=true",
	}
	i, err := serve(ctx, dir, o.binary, in.certificate, cloud...)
	if err != nil {
		return nil, err
	}
	in.stops = append(in.stops, i.Stop)
	if in.site, err = deploy(ctx, i.Instance); err != nil {
		return nil, err
	}
	in.stops = append(in.stops, in.upstream.Close)
	in.env = append(append(os.Environ(), cloud...),
		config.VarTable+"=gatewright", config.VarBucket+"=gatewright", config.VarKeyFile+"="+filepath.Join(i.Data(), rootkey.Name),
		config.VarDeploymentURL+"=https://{deployment}."+domain, config.VarCertificate+"="+in.chain+in.private)
	return in, nil
}

func (in *installation) stop() {
	for n := len(in.stops) - 1; n >= 0; n-- {
		in.stops[n]()
	}
}

// server is a process of `gatewright-server serve`.
type server struct {
	*instance.Instance

	admin string // host:port
}

// serve starts `gatewright-server serve` for the domain over the data below dir, or goes on with them.
func serve(ctx context.Context, dir, binary string, c certificate, env ...string) (*server, error) {
	for name, content := range map[string]string{chainFile: c.chain, privateFile: c.private} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			return nil, fmt.Errorf("write a certificate: %w", err)
		}
	}
	admin, err := free(ctx)
	if err != nil {
		return nil, err
	}
	command := append(append([]string{
		"env", config.VarDomain + "=" + domain, config.VarTLSCertificate + "=" + filepath.Join(dir, chainFile), config.VarTLSKey + "=" + filepath.Join(dir, privateFile),
		config.VarAdminAddr + "=" + admin, config.VarPrivateUpstreams + "=true",
	}, env...), binary, "serve")
	i, err := instance.Start(ctx, dir, "", command...)
	if err != nil {
		return nil, err
	}
	s := &server{Instance: i, admin: admin}
	i.Client = &http.Client{Transport: &http.Transport{
		MaxIdleConnsPerHost: 64, TLSClientConfig: &tls.Config{RootCAs: c.roots, MinVersion: tls.VersionTLS12},
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			if strings.HasSuffix(address, "."+domain+":443") {
				address = s.secure()
			}
			return new(net.Dialer).DialContext(ctx, network, address)
		},
	}}
	return s, nil
}

// secure is where it speaks TLS, host:port.
func (s *server) secure() string { return strings.TrimPrefix(s.TLS, "https://") }

// free is an address of this machine that nobody listens at.
func free(ctx context.Context) (string, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String(), nil
}

// running is a process of `gatewright-server gateway`.
type running struct {
	cmd                  *exec.Cmd
	secure, plain, admin string // host:port
	began, listens       time.Time
	over                 chan error // gets how it ended
}

// addresses are where a gateway listens.
type addresses struct{ secure, plain, admin string }

// some are free ones.
func some(ctx context.Context) (a addresses, err error) {
	for _, to := range []*string{&a.secure, &a.plain, &a.admin} {
		if *to, err = free(ctx); err != nil {
			return a, err
		}
	}
	return a, nil
}

// start starts a gateway, and returns when it says that it listens.
func (in *installation) start(at addresses) (*running, error) {
	p := &running{cmd: exec.Command(in.binary, "gateway"), secure: at.secure, plain: at.plain, admin: at.admin, over: make(chan error, 1)} //nolint:gosec,noctx // whoever runs this chose it, and ends it
	p.cmd.Env = append(in.env[:len(in.env):len(in.env)],
		config.VarTLSAddr+"="+at.secure, config.VarGatewayAddr+"="+at.plain, config.VarAdminAddr+"="+at.admin)
	if in.announces != 0 {
		p.cmd.Env = append(p.cmd.Env, config.VarAnnounce+"="+in.announces.String())
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start a gateway: %w", err)
	}
	p.began = time.Now()
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start a gateway: %w", err)
	}
	lines := bufio.NewReader(out)
	for {
		text, err := lines.ReadString('\n')
		if err != nil {
			return nil, errors.Join(fmt.Errorf("the gateway does not listen: %s: %w", text, err), p.cmd.Wait())
		}
		if strings.Contains(text, `"operators ask"`) {
			break
		}
	}
	p.listens = time.Now()
	go func() {
		_, _ = io.Copy(io.Discard, lines)
		p.over <- p.cmd.Wait()
	}()
	return p, nil
}

// stop has it end as a platform does, and waits until it has.
func (p *running) stop() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("end a gateway: %w", err)
	}
	if err := <-p.over; err != nil {
		return fmt.Errorf("a gateway ends badly: %w", err)
	}
	return nil
}
