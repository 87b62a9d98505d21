package container

import (
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
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
