// Package control runs commands that were typed in other processes of the machine. They run in
// the process that has locked the data directory, because only that process can open the store.
//
// The package is not a public API. Its server listens only on the loopback interface, and requires a token. Each start
// creates a new token, which only users who can read the data directory know. The package does not define any command.
// It has this file only.
package control

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// Command is a command line as the user typed it.
type Command struct {
	// Args are its arguments, without the program's name.
	Args []string `json:"args"`
	// Dir is the working directory of the user's process.
	Dir string `json:"dir"`
}

// Endpoint is the address of a Server and its token, which is a secret.
type Endpoint struct {
	Address string `json:"address"`
	Token   string `json:"token"`
}

// Runner runs a command, and writes its output.
type Runner func(ctx context.Context, c Command, out, errOut io.Writer) error

// result is the result of a command.
type result struct {
	Out     []byte `json:"out,omitempty"`
	ErrOut  []byte `json:"remarks,omitempty"`
	Failure string `json:"failure,omitempty"`
}

const (
	maxCommandBytes = 1 << 20
	// unauthenticatedTimeout is the maximum duration of a connection that has not
	// sent the token. It is short because every user of the machine can connect.
	unauthenticatedTimeout = 5 * time.Second
)

// Server runs commands of other processes until it is closed.
type Server struct {
	Endpoint Endpoint

	http *http.Server
	addr net.Addr
}

// Listen starts a Server, which calls run for each command. ctx is the parent context of all commands.
func Listen(ctx context.Context, run Runner, log *slog.Logger) (*Server, error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for commands of this machine: %w", err)
	}
	s := &Server{Endpoint: Endpoint{Address: "http://" + l.Addr().String(), Token: rand.Text()}, addr: l.Addr()}
	s.http = &http.Server{
		Handler: s.handler(run), ReadTimeout: unauthenticatedTimeout,
		BaseContext: func(net.Listener) context.Context { return ctx },
		ErrorLog:    slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	go func() { _ = s.http.Serve(l) }()
	return s, nil
}

// Addr returns the address of the server.
func (s *Server) Addr() net.Addr { return s.addr }

// Close stops the server and cancels the running commands.
func (s *Server) Close() { _ = s.http.Close() }

func (s *Server) handler(run Runner) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), []byte("Bearer "+s.Endpoint.Token)) != 1 {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // a command can take a long time
		var c Command
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxCommandBytes)).Decode(&c); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		var out, errOut bytes.Buffer
		var a result
		if err := run(r.Context(), c, &out, &errOut); err != nil {
			a.Failure = err.Error()
		}
		a.Out, a.ErrOut = out.Bytes(), errOut.Bytes()
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(a)
	})
}

// ErrUnreachable is wrapped by Run's error if Run cannot connect to the address, or if the response's status is not
// 200. In these cases the command was not run.
var ErrUnreachable = errors.New("nobody takes commands")

// Run runs a command in the process with the endpoint e, writes its output to out and
// errOut, and returns its error. When ctx ends, the command is canceled and Run returns.
func Run(ctx context.Context, e Endpoint, c Command, out, errOut io.Writer) error {
	body, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("encode a command: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, e.Address, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	request.Header.Set("Authorization", "Bearer "+e.Token)
	// This transport does not use the proxy settings of the environment.
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	var opErr *net.OpError
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &opErr) && opErr.Op == "dial":
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	case err != nil:
		return fmt.Errorf("the product that runs here has not answered (%w): look whether it did what was asked before "+
			"you repeat it", err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%w: status %d", ErrUnreachable, response.StatusCode)
	}
	var a result
	if err := json.NewDecoder(response.Body).Decode(&a); err != nil {
		return fmt.Errorf("the product that runs here has ended meanwhile (%w): look whether it did what was asked before "+
			"you repeat it", err)
	}
	_, outErr := out.Write(a.Out)
	_, _ = errOut.Write(a.ErrOut)
	if a.Failure != "" {
		return errors.New(a.Failure)
	}
	return outErr
}
