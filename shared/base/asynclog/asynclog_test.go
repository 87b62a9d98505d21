package asynclog_test

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/shared/base/asynclog"
)

// file is a destination for lines.
type file struct {
	mu      sync.Mutex
	text    strings.Builder
	writes  int
	failure error         // the error of Write, if it is not nil
	blocked chan struct{} // if it is not nil, Write blocks until it is closed
}

func (f *file) Write(p []byte) (int, error) {
	if f.blocked != nil {
		<-f.blocked
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.writes++
	if f.failure != nil {
		return 0, f.failure
	}
	return f.text.Write(p)
}

func (f *file) contents() (text string, writes int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.text.String(), f.writes
}

func write(t *testing.T, w *asynclog.Writer, text string) {
	t.Helper()
	if n, err := w.Write([]byte(text)); n != len(text) || err != nil {
		t.Errorf("Write(%d bytes) = %d, %v, want %d and no error", len(text), n, err, len(text))
	}
}

func TestLinesAreBatchedInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f file
		w := asynclog.New(&f, nil)
		defer w.Close()
		want := ""
		for n := range 50 {
			line := fmt.Sprintf("line %d\n", n)
			write(t, w, line)
			want += line
		}
		time.Sleep(99 * time.Millisecond)
		synctest.Wait()
		if _, writes := f.contents(); writes != 0 {
			t.Errorf("writes after 99 ms = %d, want 0", writes)
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		if text, writes := f.contents(); text != want || writes != 1 {
			t.Errorf("after 100 ms: %d writes of %q, want 1 of %q", writes, text, want)
		}
		write(t, w, "later\n")
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		if text, writes := f.contents(); text != want+"later\n" || writes != 2 {
			t.Errorf("after another 100 ms: %d writes of %q, want 2 of %q", writes, text, want+"later\n")
		}
	})
}

func TestFullBatchIsWrittenImmediately(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f file
		w := asynclog.New(&f, nil)
		defer w.Close()
		write(t, w, strings.Repeat("x", 64<<10))
		synctest.Wait() // the time of the bubble does not advance
		if text, _ := f.contents(); len(text) != 64<<10 {
			t.Errorf("bytes written of a full batch = %d, want %d immediately", len(text), 64<<10)
		}
	})
}

// TestPendingBufferIsNotOverwritten checks that new lines do not overwrite lines that are being written.
func TestPendingBufferIsNotOverwritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := file{blocked: make(chan struct{})}
		w := asynclog.New(&f, nil)
		line := []byte("first\n")
		if _, err := w.Write(line); err != nil {
			t.Fatal(err)
		}
		copy(line, "other\n") // callers can reuse the slice after Write
		time.Sleep(time.Second)
		synctest.Wait()
		write(t, w, "second\n")
		close(f.blocked)
		w.Flush()
		write(t, w, "third\n")
		w.Close()
		if text, _ := f.contents(); text != "first\nsecond\nthird\n" {
			t.Errorf("written = %q, want the first, second and third line", text)
		}
	})
}

func TestFlushAndCloseWritePendingLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f file
		w := asynclog.New(&f, nil)
		write(t, w, "a\n")
		w.Flush()
		if text, _ := f.contents(); text != "a\n" {
			t.Errorf("written after Flush = %q, want %q", text, "a\n")
		}
		write(t, w, "b\n")
		w.Close()
		w.Close()
		write(t, w, "too late\n")
		w.Flush()
		if text, _ := f.contents(); text != "a\nb\n" {
			t.Errorf("written after Close = %q, want %q without the later line", text, "a\nb\n")
		}
	})
}

// TestLinesBeyondCapacityAreCounted blocks the file. It checks that no caller waits, and that lines beyond the bound
// are dropped and counted.
func TestLinesBeyondCapacityAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := file{blocked: make(chan struct{})}
		var dropped []int
		w := asynclog.New(&f, func(lines int) { dropped = append(dropped, lines) })
		line := strings.Repeat("x", 1<<10-1) + "\n"
		write(t, w, line)
		time.Sleep(time.Second) // the writing goroutine has begun to write the first line
		synctest.Wait()
		for range 5000 { // 4,096 of them fit
			write(t, w, line)
		}
		close(f.blocked)
		w.Flush()
		if text, _ := f.contents(); len(text) != 4097<<10 || len(dropped) != 1 || dropped[0] != 904 {
			t.Errorf("after Flush: %d bytes written and %v lines dropped, want %d bytes and [904]", len(text), dropped, 4097<<10)
		}
		write(t, w, "again\n")
		w.Close()
		if text, _ := f.contents(); !strings.HasSuffix(text, "again\n") || len(dropped) != 1 {
			t.Errorf("after Close: the text ends with %q and dropped = %v, want %q and one report",
				text[len(text)-10:], dropped, "again\n")
		}
	})
}

func TestFailedWritesAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := file{failure: errors.New("no space left")}
		var dropped []int
		w := asynclog.New(&f, func(lines int) { dropped = append(dropped, lines) })
		write(t, w, "a\n")
		write(t, w, "b\n")
		w.Close()
		if len(dropped) != 1 || dropped[0] != 2 {
			t.Errorf("dropped after a failed write of two lines = %v, want [2]", dropped)
		}
	})
}

// TestDropCallbackCanWrite checks that the function that reports lost lines can write to the same log.
func TestDropCallbackCanWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := file{blocked: make(chan struct{})}
		var w *asynclog.Writer
		w = asynclog.New(&f, func(lines int) { write(t, w, fmt.Sprintf("%d lost\n", lines)) })
		write(t, w, "first\n")
		time.Sleep(time.Second)
		write(t, w, strings.Repeat("x", 5<<20))
		close(f.blocked)
		w.Flush()
		w.Flush()
		if text, _ := f.contents(); text != "first\n1 lost\n" {
			t.Errorf("written = %q, want %q", text, "first\n1 lost\n")
		}
		w.Close()
	})
}

func TestConcurrentWrites(t *testing.T) {
	var f file
	w := asynclog.New(&f, nil)
	var wg sync.WaitGroup
	for n := range 8 {
		wg.Go(func() {
			for i := range 1000 {
				write(t, w, fmt.Sprintf("%d %d\n", n, i))
			}
		})
	}
	wg.Wait()
	w.Close()
	text, _ := f.contents()
	next := [8]int{}
	for line := range strings.Lines(text) {
		var n, i int
		if _, err := fmt.Sscanf(line, "%d %d\n", &n, &i); err != nil || next[n] != i {
			t.Fatalf("line %q: error %v, want line %d of its writer", line, err, next[n])
		}
		next[n]++
	}
	if next != [8]int{1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000} {
		t.Errorf("lines per writer = %v, want 1000 each", next)
	}
}

// TestRareLinesAreFlushedImmediately checks that a rare line and all lines before it are written immediately.
func TestRareLinesAreFlushedImmediately(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f file
		w := asynclog.New(&f, nil)
		defer w.Close()
		plain := slog.NewTextHandler(w, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}})
		log := slog.New(asynclog.Handler(plain, w, func(r slog.Record) bool { return r.Message == "request" }))
		log.With("a", 1).WithGroup("g").Info("request", "n", 1)
		log.Debug("not enabled")
		synctest.Wait()
		if text, _ := f.contents(); text != "" {
			t.Errorf("written right after Info = %q, want nothing yet", text)
		}
		log.With("a", 1).WithGroup("g").Error("broken", "n", 2)
		if text, _ := f.contents(); text != "level=INFO msg=request a=1 g.n=1\nlevel=ERROR msg=broken a=1 g.n=2\n" {
			t.Errorf("written right after Error = %q, want the lines of both records", text)
		}
	})
}
