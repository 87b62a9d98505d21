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

	"github.com/gatewright/gatewright/internal/bench/fixture"
	"github.com/gatewright/gatewright/local/backup"
)

// engineLog reads the engine's jobs (flushes and compactions) from the product's log, from one start of the product on.
type engineLog struct {
	path     string
	offset   int64
	line     []byte          // an incomplete last line
	openJobs map[string]bool // jobs that have started and not ended
}

// openEngineLog returns a reader of the log that begins at its current end. Call it before a start.
func openEngineLog(data string) (*engineLog, error) {
	l := &engineLog{path: filepath.Join(data, "logs", "gatewright.log"), openJobs: map[string]bool{}}
	info, err := os.Stat(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the size of the product's log: %w", err)
	}
	l.offset = info.Size()
	return l, nil
}

// working reads the new lines, and reports whether a job has started and not ended. If the log is rotated meanwhile, working can miss a
// job, but it never reports one that does not exist.
func (l *engineLog) working() (bool, error) {
	file, err := os.Open(l.path)
	if err != nil {
		return false, fmt.Errorf("read the product's log: %w", err)
	}
	defer func() { _ = file.Close() }()
	text, err := io.ReadAll(io.NewSectionReader(file, l.offset, 1<<30))
	if err != nil {
		return false, fmt.Errorf("read the product's log: %w", err)
	}
	l.offset += int64(len(text))
	l.parse(text)
	return len(l.openJobs) > 0, nil
}

// The beginnings of the engine's lines when a job starts, and when it ends, with or without an error.
var (
	jobStarted  = regexp.MustCompile(`^\[JOB (\d+)\] (?:compacting|flushing)`)
	jobFinished = regexp.MustCompile(`^\[JOB (\d+)\] (?:compacted|flushed|compaction|flush )`)
)

// parse records which jobs begin and end in the text, and keeps an incomplete last line for the next call.
func (l *engineLog) parse(text []byte) {
	text = append(l.line, text...)
	for {
		line, tail, complete := bytes.Cut(text, []byte("\n"))
		if !complete {
			l.line = bytes.Clone(line)
			return
		}
		text = tail
		if !bytes.Contains(line, []byte("[JOB ")) {
			continue
		}
		var entry struct{ Says string }
		if json.Unmarshal(line, &entry) != nil {
			continue // an earlier kill truncated the line
		}
		if job := jobStarted.FindStringSubmatch(entry.Says); job != nil {
			l.openJobs[job[1]] = true
		} else if job := jobFinished.FindStringSubmatch(entry.Says); job != nil {
			delete(l.openJobs, job[1])
		}
	}
}

const (
	// pollInterval is the time between two reads of the log. It is short, because small jobs take milliseconds.
	pollInterval = time.Millisecond
	// jobTimeout is how long a round waits for a job. A round without a job is not a hit in the table.
	jobTimeout = 10 * time.Second
)

// waitForJob waits until a job is in progress, and calls wait. It returns if a job is still in progress after that, and
// otherwise waits for the next job. After jobTimeout, it returns nil without such a job.
func (l *engineLog) waitForJob(ctx context.Context, wait func()) error {
	for deadline := time.Now().Add(jobTimeout); time.Now().Before(deadline); {
		working, err := l.working()
		if working && err == nil {
			wait()
			working, err = l.working()
		}
		if working || err != nil {
			return err
		}
		if err := fixture.Wait(ctx, pollInterval); err != nil {
			return err
		}
	}
	return nil
}

// backupCommand is a running command that makes a backup of the product.
type backupCommand struct {
	file      string
	done      chan error
	startedAt time.Time
	elapsed   time.Duration // set when the command has ended
}

// startBackup starts the command that makes a backup of the running product.
func (cr *crash) startBackup(ctx context.Context) (*backupCommand, error) {
	binary, err := cr.m.Build(ctx, fixture.LocalRun)
	if err != nil {
		return nil, err
	}
	c := &backupCommand{
		file: filepath.Join(cr.product.Dir, "product.backup"), done: make(chan error, 1),
		startedAt: time.Now(),
	}
	if err := os.Remove(c.file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("remove the previous backup: %w", err)
	}
	cmd := exec.CommandContext(ctx, binary, "backup", c.file) //nolint:gosec // G204: built here
	cmd.Env = append(os.Environ(), "GATEWRIGHT_DATA_DIR="+cr.product.Data())
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start a backup: %w", err)
	}
	go func() {
		err := cmd.Wait()
		if err != nil {
			err = fmt.Errorf("%w: %s", err, output.Bytes())
		}
		c.elapsed = time.Since(c.startedAt)
		c.done <- err
	}()
	return c, nil
}

// restored is the name of the folder with the last restored backup.
const restored = "restored"

// wait waits for the end of the command and reports whether it made a backup. It returns an error if a failed command
// has left a file, or if the file of a successful command is missing or cannot be restored.
func (c *backupCommand) wait(ctx context.Context) (created bool, err error) {
	failed := <-c.done
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

// restore restores the backup into a data directory, and so reads all of its file. It first removes the directory of
// the previous backup.
func (c *backupCommand) restore(ctx context.Context, dir string) error {
	err := os.RemoveAll(dir)
	if err == nil {
		err = os.Mkdir(dir, 0o700)
	}
	if err != nil {
		return fmt.Errorf("replace the folder of the previous restored backup: %w", err)
	}
	if _, err := backup.Restore(ctx, c.file, filepath.Join(dir, "data")); err != nil {
		return fmt.Errorf("restore a backup: %w", err)
	}
	return nil
}
