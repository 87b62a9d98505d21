package container

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/service"
)

// stuckDisk takes nothing until it is let go.
type stuckDisk struct {
	free chan struct{}
	mu   sync.Mutex
	text strings.Builder
}

func (s *stuckDisk) Write(p []byte) (int, error) {
	<-s.free
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

// TestNoRequestWaitsForALine: who prints to a pipe that nobody reads goes on, and all is there, in
// order, when it ends. What is rare is written before it goes on.
func TestNoRequestWaitsForALine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := &stuckDisk{free: make(chan struct{})}
		by, closed := logOf(disk)
		log := slog.New(by)
		for range 100 {
			log.Info("request", "n", 1) // returns, or the bubble is at a standstill
		}
		rare := make(chan struct{})
		go func() {
			log.Warn("something rare")
			close(rare)
		}()
		synctest.Wait()
		select {
		case <-rare:
			t.Error("a warning is not waited for")
		default:
		}
		close(disk.free)
		<-rare
		if got := disk.text.String(); strings.Count(got, `"msg":"request"`) != 100 || !strings.HasSuffix(strings.TrimSpace(got), `"msg":"something rare"}`) {
			t.Errorf("written is %s", got)
		}
		log.Info("request", "n", 2)
		closed()
		if got := disk.text.String(); !strings.Contains(got, `"n":2`) {
			t.Errorf("at the end a line is missing: %s", got)
		}
	})
}

// slowDisk takes the line of a request when the process has ended, or when that does not come.
type slowDisk struct {
	ended   chan struct{}
	written chan bool // whether it was in time
}

func (s slowDisk) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte(`"msg":"request"`)) {
		select {
		case <-s.ended:
			s.written <- false
		case <-time.After(2 * time.Second):
			s.written <- true
		}
	}
	return len(p), nil
}

// logsAtTheEnd is a process whose last request is answered while it drains.
type logsAtTheEnd struct {
	*echo
	log *slog.Logger
}

func (l logsAtTheEnd) Drain(ctx context.Context) { l.log.InfoContext(ctx, "request") }

// TestTheLastLinesAreWrittenBeforeItEnds, however long that takes: the process is gone behind run, and what waits with it.
func TestTheLastLinesAreWrittenBeforeItEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	disk := slowDisk{ended: make(chan struct{}), written: make(chan bool, 1)}
	err := run(ctx, declared(), func(p installation.Parts, _ string) (service.Process, error) {
		cancel()
		return logsAtTheEnd{newEcho(), p.Log}, nil
	}, nil, task(map[string]string{"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}), disk)
	close(disk.ended)
	if err != nil {
		t.Fatal(err)
	}
	if !<-disk.written {
		t.Error("it has ended before the line of its last request was written")
	}
}
