// Package control lets other processes of the machine have commands run by the
// process that has the data directory: its store is open there, and nowhere else.
//
// What it is not: an API. It listens on loopback alone, takes who knows the
// token, which is made at each start and is for those who can read the data
// directory, and knows no command itself.
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

// Command is a command as it was typed.
type Command struct {
	// Args are its words, without the program's name.
	Args []string `json:"args"`
	// Dir is the folder in which it was typed.
	Dir string `json:"dir"`
}

// Endpoint is where commands are taken. It is a secret.
type Endpoint struct {
	Address string `json:"address"`
	Token   string `json:"token"`
}

// Runner runs a command, and writes what it prints.
type Runner func(ctx context.Context, c Command, out, remarks io.Writer) error

// answer is what became of a command.
type answer struct {
	Out     []byte `json:"out,omitempty"`
	Remarks []byte `json:"remarks,omitempty"`
	Failure string `json:"failure,omitempty"`
}

const (
	maxCommandBytes = 1 << 20
	// strangerTimeout is how long somebody has a connection without the token:
	// every user of the machine can dial.
	strangerTimeout = 5 * time.Second
)

// Server takes commands until it is closed.
type Server struct {
	Endpoint Endpoint

	http *http.Server
	addr net.Addr
}

// Listen begins to take commands, which ctx ends.
func Listen(ctx context.Context, run Runner, log *slog.Logger) (*Server, error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for commands of this machine: %w", err)
	}
	s := &Server{Endpoint: Endpoint{Address: "http://" + l.Addr().String(), Token: rand.Text()}, addr: l.Addr()}
	s.http = &http.Server{
		Handler: s.handler(run), ReadTimeout: strangerTimeout,
		BaseContext: func(net.Listener) context.Context { return ctx },
		ErrorLog:    slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	go func() { _ = s.http.Serve(l) }()
	return s, nil
}

// Addr is where it listens.
func (s *Server) Addr() net.Addr { return s.addr }

// Close ends it, and the commands that run.
func (s *Server) Close() { _ = s.http.Close() }

func (s *Server) handler(run Runner) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), []byte("Bearer "+s.Endpoint.Token)) != 1 {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // a command may take long
		var c Command
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxCommandBytes)).Decode(&c); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		var out, remarks bytes.Buffer
		var a answer
		if err := run(r.Context(), c, &out, &remarks); err != nil {
			a.Failure = err.Error()
		}
		a.Out, a.Remarks = out.Bytes(), remarks.Bytes()
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(a)
	})
}

// ErrUnreachable is wrapped by Ask's error when nobody takes commands there, or
// somebody else does. The command was not run.
var ErrUnreachable = errors.New("nobody takes commands")

// Ask has a command run and passes on what it prints. The error is the command's.
// It ends with ctx, and so does the command.
func Ask(ctx context.Context, e Endpoint, c Command, out, remarks io.Writer) error {
	body, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("encode a command: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, e.Address, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	request.Header.Set("Authorization", "Bearer "+e.Token)
	// A proxy of the environment has no business here.
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	var dial *net.OpError
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &dial) && dial.Op == "dial":
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	case err != nil:
		return fmt.Errorf("the product that runs here has not answered (%w): look whether it did what was asked before you repeat it", err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%w: status %d", ErrUnreachable, response.StatusCode)
	}
	var a answer
	if err := json.NewDecoder(response.Body).Decode(&a); err != nil {
		return fmt.Errorf("the product that runs here has ended meanwhile (%w): look whether it did what was asked before you repeat it", err)
	}
	_, outErr := out.Write(a.Out)
	_, _ = remarks.Write(a.Remarks)
	if a.Failure != "" {
		return errors.New(a.Failure)
	}
	return outErr
}
