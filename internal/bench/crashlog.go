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
	"os/exec"
	"path/filepath"
	"regexp"
	"time"

	"github.com/gatewright/gatewright/internal/bench/world"
	"github.com/gatewright/gatewright/local/backup"
)

// engineLog reads the engine's jobs (flushes and compactions) from the product's log, from one start on.
type engineLog struct {
	path string
	at   int64
	line []byte          // an incomplete last line
	open map[string]bool // jobs that have started and not ended
}

// logOf returns a reader of the log that begins at its current end. Call it before a start.
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

// working reads the new lines, and reports whether a job has started and not ended. If the log is rotated meanwhile, working may miss
// a job, but it never reports one that does not exist.
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

// The beginnings of the engine's lines when a job starts, and when it ends, with or without an error.
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
	// lookInterval is the time between two reads of the log. It is short, because small jobs take milliseconds.
	lookInterval = time.Millisecond
	// jobTimeout is how long a round waits for a job. The table says how many rounds had one.
	jobTimeout = 10 * time.Second
)

// await waits until a job is in progress and still is after pause. It returns nil without a job after jobTimeout.
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
		if err := world.Wait(ctx, lookInterval); err != nil {
			return err
		}
	}
	return nil
}

// copying is a running command that makes a backup of the product.
type copying struct {
	file  string
	ended chan error
	begun time.Time
	took  time.Duration // set when it has ended
}

func (r *crash) startBackup(ctx context.Context) (*copying, error) {
	binary, err := r.m.Build(ctx, world.LocalRun)
	if err != nil {
		return nil, err
	}
	c := &copying{file: filepath.Join(r.product.Dir, "product.backup"), ended: make(chan error, 1), begun: time.Now()}
	if err := os.Remove(c.file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("remove the last backup: %w", err)
	}
	cmd := exec.CommandContext(ctx, binary, "backup", c.file) //nolint:gosec // G204: built here
	cmd.Env = append(os.Environ(), "GATEWRIGHT_DATA_DIR="+r.product.Data())
	var says bytes.Buffer
	cmd.Stdout, cmd.Stderr = &says, &says
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start a backup: %w", err)
	}
	go func() {
		err := cmd.Wait()
		if err != nil {
			err = fmt.Errorf("%w: %s", err, says.Bytes())
		}
		c.took = time.Since(c.begun)
		c.ended <- err
	}()
	return c, nil
}

// restored is the name of the folder with the last restored backup.
const restored = "restored"

// end waits for the end of the command and reports whether it made a backup. It returns an error if the file contradicts that: a
// backup that failed must not leave a file, and one that succeeded must be complete.
func (c *copying) end(ctx context.Context) (made bool, err error) {
	failed := <-c.ended
	switch _, err = os.Stat(c.file); {
	case failed != nil && errors.Is(err, fs.ErrNotExist):
		return false, nil
	case failed != nil:
		return false, fmt.Errorf("the backup failed, but left its file %s: %w", c.file, failed)
	case err != nil:
		return false, fmt.Errorf("the backup succeeded, but its file is missing: %w", err)
	}
	return true, c.restore(ctx, filepath.Join(filepath.Dir(c.file), restored))
}

// restore restores the backup into a data directory, which reads all of the file. It first removes the directory of the backup before.
func (c *copying) restore(ctx context.Context, dir string) error {
	err := os.RemoveAll(dir)
	if err == nil {
		err = os.Mkdir(dir, 0o700)
	}
	if err != nil {
		return fmt.Errorf("replace the folder of the last restored backup: %w", err)
	}
	if _, err := backup.Restore(ctx, c.file, filepath.Join(dir, "data")); err != nil {
		return fmt.Errorf("restore a backup: %w", err)
	}
	return nil
}
