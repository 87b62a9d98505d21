package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"time"
)

// engineLog is what the engine says of its jobs in the run's log, in one life of
// the product: it writes tables beside the commits.
type engineLog struct {
	path string
	at   int64
	line []byte // the beginning of one
	open map[string]bool
}

// logOf begins where the log ends: before a start.
func logOf(data string) (*engineLog, error) {
	l := &engineLog{path: filepath.Join(data, "logs", "gatewright.log"), open: map[string]bool{}}
	info, err := os.Stat(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look at the product's log: %w", err)
	}
	l.at = info.Size()
	return l, nil
}

// working reads on, and reports whether a job has begun and not ended. A log that
// has moved to another file meanwhile tells too little, and never too much.
func (l *engineLog) working() (bool, error) {
	file, err := os.Open(l.path)
	if err != nil {
		return false, fmt.Errorf("read the product's log: %w", err)
	}
	defer func() { _ = file.Close() }()
	text, err := io.ReadAll(io.NewSectionReader(file, l.at, 1<<30))
	if err != nil {
		return false, fmt.Errorf("read the product's log: %w", err)
	}
	l.at += int64(len(text))
	l.take(text)
	return len(l.open) > 0, nil
}

// The engine's words for the beginning and the end of a job, well or not.
var (
	begins = regexp.MustCompile(`^\[JOB (\d+)\] (?:compacting|flushing)`)
	ends   = regexp.MustCompile(`^\[JOB (\d+)\] (?:compacted|flushed|compaction|flush )`)
)

func (l *engineLog) take(text []byte) {
	text = append(l.line, text...)
	for {
		line, rest, whole := bytes.Cut(text, []byte("\n"))
		if !whole {
			l.line = bytes.Clone(line)
			return
		}
		text = rest
		if !bytes.Contains(line, []byte("[JOB ")) {
			continue
		}
		var entry struct{ Says string }
		if json.Unmarshal(line, &entry) != nil {
			continue // an earlier kill cut it
		}
		if job := begins.FindStringSubmatch(entry.Says); job != nil {
			l.open[job[1]] = true
		} else if job := ends.FindStringSubmatch(entry.Says); job != nil {
			delete(l.open, job[1])
		}
	}
}

const (
	// lookInterval is the time between two looks at the log: small jobs take
	// milliseconds.
	lookInterval = time.Millisecond
	// jobTimeout is how long a round waits for a job; the report says how many
	// met one.
	jobTimeout = 10 * time.Second
)

// await waits until a job is under way, and still is after pause.
func (l *engineLog) await(ctx context.Context, pause func()) error {
	for deadline := time.Now().Add(jobTimeout); time.Now().Before(deadline); {
		working, err := l.working()
		if working && err == nil {
			pause()
			working, err = l.working()
		}
		if working || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(lookInterval):
		}
	}
	return nil
}
