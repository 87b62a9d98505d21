package behind_test

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/shared/behind"
)

// file is what is written to. It takes nothing while it is held, and refuses all where failure is set.
type file struct {
	mu      sync.Mutex
	text    strings.Builder
	writes  int
	failure error
	held    chan struct{} // nil for not held
}

func (f *file) Write(p []byte) (int, error) {
	if f.held != nil {
		<-f.held
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.writes++
	if f.failure != nil {
		return 0, f.failure
	}
	return f.text.Write(p)
}

func (f *file) all() (string, int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.text.String(), f.writes
}

func write(t *testing.T, w *behind.Writer, text string) {
	t.Helper()
	if n, err := w.Write([]byte(text)); n != len(text) || err != nil {
		t.Errorf("a line of %d bytes is taken as %d, %v", len(text), n, err)
	}
}

func TestLinesAreWrittenTogetherAndInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f file
		w := behind.New(&f, nil)
		defer w.Close()
		want := ""
		for n := range 50 {
			line := fmt.Sprintf("line %d\n", n)
			write(t, w, line)
			want += line
		}
		time.Sleep(99 * time.Millisecond)
		synctest.Wait()
		if _, writes := f.all(); writes != 0 {
			t.Errorf("%d writes before they are due", writes)
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		if text, writes := f.all(); text != want || writes != 1 {
			t.Errorf("%d writes of %q", writes, text)
		}
		write(t, w, "later\n")
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		if text, writes := f.all(); text != want+"later\n" || writes != 2 {
			t.Errorf("%d writes of %q", writes, text)
		}
	})
}

func TestManyLinesDoNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f file
		w := behind.New(&f, nil)
		defer w.Close()
		write(t, w, strings.Repeat("x", 64<<10))
		synctest.Wait() // and no time passes
		if text, _ := f.all(); len(text) != 64<<10 {
			t.Errorf("%d bytes are written", len(text))
		}
	})
}

// TestABufferIsNotWrittenOver: what is being written, and what comes meanwhile, are not of the same memory.
func TestABufferIsNotWrittenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := file{held: make(chan struct{})}
		w := behind.New(&f, nil)
		line := []byte("first\n")
		if _, err := w.Write(line); err != nil {
			t.Fatal(err)
		}
		copy(line, "other\n") // who writes has it back
		time.Sleep(time.Second)
		synctest.Wait()
		write(t, w, "second\n")
		close(f.held)
		w.Flush()
		write(t, w, "third\n")
		w.Close()
		if text, _ := f.all(); text != "first\nsecond\nthird\n" {
			t.Errorf("written is %q", text)
		}
	})
}

func TestFlushAndCloseWriteWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f file
		w := behind.New(&f, nil)
		write(t, w, "a\n")
		w.Flush()
		if text, _ := f.all(); text != "a\n" {
			t.Errorf("flushed is %q", text)
		}
		write(t, w, "b\n")
		w.Close()
		w.Close()
		write(t, w, "too late\n")
		w.Flush()
		if text, _ := f.all(); text != "a\nb\n" {
			t.Errorf("closed it is %q", text)
		}
	})
}

// TestLinesThatFindNoRoomAreCounted while the file takes nothing: nobody waits, and the memory has a bound.
func TestLinesThatFindNoRoomAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := file{held: make(chan struct{})}
		var lost []int
		w := behind.New(&f, func(lines int) { lost = append(lost, lines) })
		line := strings.Repeat("x", 1<<10-1) + "\n"
		write(t, w, line)
		time.Sleep(time.Second) // that one is being written now
		synctest.Wait()
		for range 5000 { // room is for 4,096 of them
			write(t, w, line)
		}
		close(f.held)
		w.Flush()
		if text, _ := f.all(); len(text) != 4097<<10 || len(lost) != 1 || lost[0] != 904 {
			t.Errorf("%d bytes are written, and %v lines lost", len(text), lost)
		}
		write(t, w, "again\n")
		w.Close()
		if text, _ := f.all(); !strings.HasSuffix(text, "again\n") || len(lost) != 1 {
			t.Errorf("afterwards it ends with %q, and %v lines are lost", text[len(text)-10:], lost)
		}
	})
}

func TestLinesThatAreNotTakenAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := file{failure: errors.New("no space left")}
		var lost []int
		w := behind.New(&f, func(lines int) { lost = append(lost, lines) })
		write(t, w, "a\n")
		write(t, w, "b\n")
		w.Close()
		if len(lost) != 1 || lost[0] != 2 {
			t.Errorf("%v lines are lost", lost)
		}
	})
}

// TestWhoIsToldOfLossesMayWrite, since it is told in the same log.
func TestWhoIsToldOfLossesMayWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := file{held: make(chan struct{})}
		var w *behind.Writer
		w = behind.New(&f, func(lines int) { write(t, w, fmt.Sprintf("%d lost\n", lines)) })
		write(t, w, "first\n")
		time.Sleep(time.Second)
		write(t, w, strings.Repeat("x", 5<<20))
		close(f.held)
		w.Flush()
		w.Flush()
		if text, _ := f.all(); text != "first\n1 lost\n" {
			t.Errorf("written is %q", text)
		}
		w.Close()
	})
}

func TestManyWriteAtOnce(t *testing.T) {
	var f file
	w := behind.New(&f, nil)
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() {
			for i := range 1000 {
				write(t, w, fmt.Sprintf("%d %d\n", n, i))
			}
		})
	}
	all.Wait()
	w.Close()
	text, _ := f.all()
	next := [8]int{}
	for line := range strings.Lines(text) {
		var n, i int
		if _, err := fmt.Sscanf(line, "%d %d\n", &n, &i); err != nil || next[n] != i {
			t.Fatalf("%q comes after %d of it: %v", line, next[n], err)
		}
		next[n]++
	}
	if next != [8]int{1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000} {
		t.Errorf("written are %v", next)
	}
}

// TestRareLinesAreWrittenAtOnce, with those that were before them.
func TestRareLinesAreWrittenAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f file
		w := behind.New(&f, nil)
		defer w.Close()
		plain := slog.NewTextHandler(w, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}})
		log := slog.New(behind.Handler(plain, w, func(r slog.Record) bool { return r.Message == "request" }))
		log.With("a", 1).WithGroup("g").Info("request", "n", 1)
		log.Debug("not enabled")
		synctest.Wait()
		if text, _ := f.all(); text != "" {
			t.Errorf("a request's line is written at once: %s", text)
		}
		log.With("a", 1).WithGroup("g").Error("broken", "n", 2)
		if text, _ := f.all(); text != "level=INFO msg=request a=1 g.n=1\nlevel=ERROR msg=broken a=1 g.n=2\n" {
			t.Errorf("written is %s", text)
		}
	})
}
