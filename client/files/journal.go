package files

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"github.com/gatewright/gatewright/shared/base/disk"
)

// progressSuffix is the suffix of a journal's name. It follows the name of the plan's file.
const progressSuffix = ".progress"

// entry is a line of the journal. The first line identifies the plan. Each other line says that a request is about to
// be sent, or that it is done.
type entry struct {
	Plan      string     `json:"plan,omitempty"`
	N         int        `json:"n,omitempty"` // number of the change, from 1
	StartedAt *time.Time `json:"begun,omitempty"`
	Done      bool       `json:"done,omitempty"`
	// Key and ID identify an object that was created.
	Key string `json:"key,omitempty"`
	ID  string `json:"id,omitempty"`
}

// journal records how far a plan is applied. For a plan without a file, nothing is written.
type journal struct {
	file *os.File
	lock io.Closer
	// completed is the number of changes that were made. startedAt is the time when an earlier call of Apply first sent
	// the next change, nil if no earlier call has sent it.
	completed int
	startedAt *time.Time
	// ids has the IDs of the objects that were created, by their keys in the plan.
	ids map[string]string
}

// LockFile locks a file so that only one process at a time works with it. The lock ends when the caller closes the
// result, or when the process ends. Lock the file that lists the work, and not its progress file: on Windows, a locked
// file cannot be written.
func LockFile(path string) (io.Closer, error) {
	lock := flock.New(path, flock.SetFlag(os.O_RDONLY)) // read-only, so that no file is created
	switch locked, err := lock.TryLock(); {
	case err != nil:
		return nil, usageError("%s cannot be locked: %w", path, disk.Cause(err))
	case !locked:
		return nil, errors.Join(usageError("%s is being worked off by another process: wait until that has ended", path),
			lock.Close())
	}
	return lock, nil
}

// openJournal locks the file of a plan, and opens or creates the plan's journal. It removes an incomplete last line.
func openJournal(planFile string, p *Plan) (*journal, error) {
	path := planFile + progressSuffix
	lock, err := LockFile(planFile)
	if err != nil {
		return nil, err
	}
	f, err := disk.OpenRegular(path, privateMode)
	if err != nil {
		return nil, errors.Join(usageError("%s cannot be opened: %w", path, disk.Cause(err)), lock.Close())
	}
	j := &journal{file: f, lock: lock, ids: map[string]string{}}
	isNew, err := j.read(p)
	if err != nil {
		return nil, errors.Join(usageError("%s: %w", path, err), j.close())
	}
	if isNew {
		if err := j.write(entry{Plan: p.Digest}, true); err != nil {
			return nil, errors.Join(err, j.close())
		}
	}
	if err := disk.SyncFolder(filepath.Dir(path)); err != nil {
		return nil, errors.Join(fmt.Errorf("%s cannot be kept: %w", path, disk.Cause(err)), j.close())
	}
	return j, nil
}

var errOtherPlan = errors.New("it is of another plan: move it away, or apply that one")

// read reads the entries of the journal, and removes an incomplete last line. isNew reports that the journal has no
// complete line. The error is errOtherPlan if the journal does not belong to p.
func (j *journal) read(p *Plan) (isNew bool, err error) {
	content, err := io.ReadAll(j.file)
	if err != nil {
		return false, disk.Cause(err)
	}
	complete := content[:bytes.LastIndexByte(content, '\n')+1]
	if len(complete) == 0 {
		// Never truncate a file that another program has written. An incomplete journal must begin like a first line.
		const prefix = `{"plan":"`
		if partial := string(content); !strings.HasPrefix(partial, prefix) && !strings.HasPrefix(prefix, partial) {
			return false, errOtherPlan
		}
		return true, j.truncate(0)
	}
	first := true
	for line := range bytes.Lines(complete) {
		var e entry
		if json.Unmarshal(line, &e) != nil || first && e.Plan != p.Digest {
			return false, errOtherPlan
		}
		first = false
		switch {
		case e.Done:
			j.completed, j.startedAt = e.N, nil
			if e.ID != "" {
				j.ids[e.Key] = e.ID
			}
		case e.StartedAt != nil:
			j.startedAt = e.StartedAt
		}
	}
	if j.completed > len(p.Changes) {
		return false, errOtherPlan
	}
	return false, j.truncate(int64(len(complete)))
}

func (j *journal) truncate(size int64) error {
	if err := j.file.Truncate(size); err != nil {
		return disk.Cause(err)
	}
	if _, err := j.file.Seek(size, io.SeekStart); err != nil {
		return disk.Cause(err)
	}
	return nil
}

func (j *journal) write(e entry, sync bool) error {
	if j.file == nil {
		return nil
	}
	line, err := json.Marshal(e)
	if err == nil {
		_, err = j.file.Write(append(line, '\n'))
	}
	if err == nil && sync {
		err = j.file.Sync()
	}
	if err != nil {
		return fmt.Errorf("%s cannot be written: %w: the same command goes on from there", j.file.Name(), disk.Cause(err))
	}
	return nil
}

// begin records that request n is about to be sent, unless the journal already has it.
func (j *journal) begin(n int, now time.Time) error {
	if j.startedAt != nil {
		return nil
	}
	return j.write(entry{N: n, StartedAt: &now}, false)
}

// finish records that request n is done, and syncs the file.
func (j *journal) finish(n int, key, id string) error {
	j.completed, j.startedAt = n, nil
	if id != "" {
		j.ids[key] = id
	}
	return j.write(entry{N: n, Done: true, Key: key, ID: id}, true)
}

func (j *journal) close() error {
	if j.file == nil {
		return nil
	}
	return errors.Join(j.file.Close(), j.lock.Close())
}
