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

	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/runtime/service"
)

// blockedDisk blocks writes until it is released.
type blockedDisk struct {
	released chan struct{}
	mu       sync.Mutex
	text     strings.Builder
}

func (b *blockedDisk) Write(p []byte) (int, error) {
	<-b.released
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// TestRequestDoesNotWaitForLogWrite checks that the log lines of requests do not wait for a blocked
// output. Any other line waits until it is written, after the lines before it. No line is lost.
func TestRequestDoesNotWaitForLogWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := &blockedDisk{released: make(chan struct{})}
		handler, flush := newLogHandler(disk)
		log := slog.New(handler)
		for range 100 {
			log.Info("request", "n", 1) // must return; otherwise the bubble is deadlocked and the test fails
		}
		warned := make(chan struct{})
		go func() {
			log.Warn("something rare")
			close(warned)
		}()
		synctest.Wait()
		select {
		case <-warned:
			t.Error("Warn() returns before its line is written, want it to wait")
		default:
		}
		close(disk.released)
		<-warned
		if got := disk.text.String(); strings.Count(got, `"msg":"request"`) != 100 ||
			!strings.HasSuffix(strings.TrimSpace(got), `"msg":"something rare"}`) {
			t.Errorf("log = %s, want 100 lines of requests and the warning last", got)
		}
		log.Info("request", "n", 2)
		flush()
		if got := disk.text.String(); !strings.Contains(got, `"n":2`) {
			t.Errorf("log after the flush = %s, want the line with n=2", got)
		}
	})
}

// slowDisk delays the write of a request's line until run has returned, or for two seconds.
type slowDisk struct {
	runEnded chan struct{}
	inTime   chan bool // whether run waited for the write
}

func (s slowDisk) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte(`"msg":"request"`)) {
		select {
		case <-s.runEnded:
			s.inTime <- false
		case <-time.After(2 * time.Second):
			s.inTime <- true
		}
	}
	return len(p), nil
}

// logsOnDrain is a process whose last request ends while it drains.
type logsOnDrain struct {
	*echo
	log *slog.Logger
}

func (l logsOnDrain) Drain(ctx context.Context) { l.log.InfoContext(ctx, "request") }

// TestLogIsFlushedBeforeRunReturns checks that run writes all log lines before it returns, however
// long the writes take. The process ends when run returns, and unwritten lines would be lost.
func TestLogIsFlushedBeforeRunReturns(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	disk := slowDisk{runEnded: make(chan struct{}), inTime: make(chan bool, 1)}
	err := run(ctx, testService(), func(p installation.Parts, _ string) (service.Process, error) {
		cancel()
		return logsOnDrain{newEcho(), p.Log}, nil
	}, nil, taskEnv(map[string]string{"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}), disk)
	close(disk.runEnded)
	if err != nil {
		t.Fatal(err)
	}
	if !<-disk.inTime {
		t.Error("run() returns before the line of its last request is written, want it flushed")
	}
}
